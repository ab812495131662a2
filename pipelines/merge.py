"""`scenario-lib merge`: several libraries in, one out."""

from pathlib import Path

import click

from scenario_lib.library.merge import merge_libraries

from .console import echo_facts
from .options import json_option, out_option, overwrite_option


@click.command("merge")
@click.argument("libraries", nargs=-1, type=click.Path(path_type=Path))
@out_option
@overwrite_option
@json_option
def command(libraries: tuple[Path, ...], out: Path, overwrite: bool, as_json: bool) -> None:
    """Merge LIBRARIES into one, in which every record keeps its own recipe and no scenario is there twice.

    Every record is drawn again on the way; one that does not replay stops the merge. The order of LIBRARIES does not
    matter. Libraries written by openg2g's example have no digests, and are refused: build their seeds again.

    \b
    Exit codes: 0 merged; 1 refused or failed; 2 usage.
    """
    report = merge_libraries(libraries, out, overwrite)
    echo_facts(report.to_dict(), report.lines(), as_json)
