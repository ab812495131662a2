"""`scenario-lib info`: what a person wants to know before training on a library."""

from pathlib import Path

import click

from scenario_lib.screening.library_info import library_info

from .console import echo_facts
from .options import json_option


@click.command("info")
@click.argument("library", type=click.Path(path_type=Path))
@json_option
def command(library: Path, as_json: bool) -> None:
    """Show what LIBRARY holds: records by kind, recovery, windows, rejected candidates, recipe, versions."""
    info = library_info(library)
    echo_facts(info.to_dict(), info.lines(), as_json)
