"""`scenario-lib split`: one library in, train, validation and test out."""

from pathlib import Path

import click

from scenario_lib.library.parts import parse_parts
from scenario_lib.library.split import split_library

from .console import echo_facts
from .options import json_option, overwrite_option


@click.command("split")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the parts, each a library.")
@click.option(
    "--parts",
    default="train=0.8,validation=0.1,test=0.1",
    show_default=True,
    metavar="NAME=SIZE,...",
    help="Fractions (0.8), or numbers of records (160).",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another one deals otherwise.")
@overwrite_option
@json_option
def command(library: Path, out: Path, parts: str, seed: int, overwrite: bool, as_json: bool) -> None:
    """Split LIBRARY into parts that share neither a seed nor a scenario, in proportion within every recipe and kind.

    The same seed and parts give the same libraries. What no part takes is left out, and said.

    \b
    Exit codes: 0 split; 1 refused or failed; 2 usage.
    """
    reports = split_library(library, out, parse_parts(parts), seed, overwrite)
    echo_facts([report.to_dict() for report in reports], (report.line for report in reports), as_json)
