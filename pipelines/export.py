"""`scenario-lib export`: one recipe of a library, as a library that openg2g's example loads."""

from dataclasses import asdict
from pathlib import Path

import click

from scenario_lib.library.export import export_recipe

from .console import echo_facts
from .options import json_option, out_option, overwrite_option


@click.command("export")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--recipe", help="Its identifier, or the name of its stratum.  [default: the only one]")
@out_option
@overwrite_option
@json_option
def command(library: Path, recipe: str | None, out: Path, overwrite: bool, as_json: bool) -> None:
    """Write one recipe of LIBRARY as a library of its own, which openg2g's example can load.

    \b
    Exit codes: 0 exported; 1 refused or failed; 2 usage.
    """
    report = export_recipe(library, recipe, out, overwrite)
    lines = (
        f"exported            {report.records} records, {report.candidates} candidates of {report.recipe}",
        f"library             {report.path}",
    )
    echo_facts({**asdict(report), "path": str(report.path)}, lines, as_json)
