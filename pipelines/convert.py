"""`scenario-lib convert`: the same library in the other of its two forms."""

from dataclasses import asdict
from pathlib import Path

import click

from scenario_lib.library.convert import STORES, Conversion, convert_library

from .console import echo_facts
from .options import json_option

_BYTES_PER_MB = 1e6


@click.command("convert")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--to", "store", type=click.Choice(STORES), required=True, help="Sharded, or the contract's two files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the new library.")
@click.option("--overwrite", is_flag=True, help="Replace a library that is there.")
@json_option
def command(library: Path, store: str, out: Path, overwrite: bool, as_json: bool) -> None:
    """Write LIBRARY in its other form: same records, scenarios and traces; converted back, the same bytes.

    A sharded library opens at once and shares its memory among processes, however many records it has; openg2g's
    example reads the contract's two files only. LIBRARY stays as it is.

    \b
    Exit codes: 0 converted; 1 refused or failed, and nothing was written; 2 usage.
    """
    done = convert_library(library, store, out, overwrite)
    facts = {**asdict(done), "source": str(done.source), "target": str(done.target)}
    echo_facts(facts, _lines(done), as_json)


def _lines(done: Conversion) -> list[str]:
    before, after = (size / _BYTES_PER_MB for size in (done.source_bytes, done.target_bytes))
    return [
        f"{done.store:20}{done.records} records, {before:.1f} MB -> {after:.1f} MB",
        *(f"note                {note}" for note in done.notes),
        f"library             {done.target}",
    ]
