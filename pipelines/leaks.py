"""`scenario-lib leaks`: what two libraries have in common that a fair test does not allow."""

import sys
from pathlib import Path

import click

from scenario_lib.library.leaks import find_leaks

from .console import echo_facts
from .options import json_option

EXIT_LEAKS = 8


@click.command("leaks")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option(
    "--nearer-than",
    type=click.FloatRange(min=0),
    metavar="DISTANCE",
    help="Also count as leaks the records of SECOND that have a neighbour in FIRST at less than this distance.",
)
@json_option
def command(first: Path, second: Path, nearer_than: float | None, as_json: bool) -> None:
    """Say which seeds and scenarios FIRST (train, say) and SECOND (test) share, and how near their records are.

    Distances are root mean squares over all drawn parameters, each in units of its standard deviation; those within
    FIRST are shown beside, as a measure of what is near.

    \b
    Exit codes: 0 nothing in common; 1 failed; 2 usage; 8 shared seeds, equal scenarios, or records that are too near.
    """
    report = find_leaks(first, second, nearer_than)
    echo_facts(report.to_dict(), report.lines(), as_json)
    sys.exit(EXIT_LEAKS if report.leaks else 0)
