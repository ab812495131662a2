"""`scenario-lib diff`: what changed from one library, or one night, to another."""

import sys
from pathlib import Path

import click

from scenario_lib.errors import ScenarioLibError
from scenario_lib.nightly.diff import diff_libraries
from scenario_lib.nightly.diff_text import diff_lines

from .console import echo_facts
from .options import json_option

EXIT_DIFFERENT = 1
EXIT_TROUBLE = 2


@click.command("diff")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@json_option
def command(before: Path, after: Path, as_json: bool) -> None:
    """Compare two libraries: records, verdicts with their margins, distributions, versions and data.

    \b
    Exit codes: 0 equal; 1 different; 2 usage, or one of them is not a library that can be read.
    """
    try:
        diff = diff_libraries(before, after)
    except ScenarioLibError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_TROUBLE)
    echo_facts(diff.to_dict(), diff_lines(diff), as_json)
    sys.exit(0 if diff.equal else EXIT_DIFFERENT)
