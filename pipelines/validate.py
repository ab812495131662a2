"""`scenario-lib validate`: does a library hold what it says, and does it replay?"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.execution.tasks import RunOptions
from scenario_lib.screening.findings import Grade
from scenario_lib.screening.replay import ReplayOptions
from scenario_lib.screening.validate import ValidationReport, validate_library
from scenario_lib.simulation.engines import ENGINES, TOLERANCES, Engine

from .options import jobs_option, json_option, specs_dir_option, timeout_option

_WORDS = {
    Grade.HELD: "held: identical",
    Grade.WITHIN_TOLERANCE: "held within tolerance",
    Grade.NOT_VERIFIABLE: "cannot be verified",
    Grade.DIFFERS: "DIFFERS",
}


@click.command("validate")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--replay", default="0", show_default=True, metavar="all|N", help="Run the rollouts of N records again.")
@click.option("--system", help="Experiment's TOML file, for a library on a feeder of your own.")
@click.option("--engine", type=click.Choice(ENGINES), help="Engine to replay on.  [default: the record's own]")
@click.option("--tolerance", type=click.Choice(TOLERANCES), default="opendss", show_default=True, help="With --engine.")
@specs_dir_option
@jobs_option
@timeout_option
@json_option
def command(library: Path, replay: str, as_json: bool, **options: Any) -> None:
    """Check that files are whole and unchanged, draw every record again, and replay rollouts bit for bit.

    \b
    Exit codes: 0 held; 1 differs; 2 usage; 3 cannot be verified (no digests); 4 equal within tolerance.
    """
    run = RunOptions(options["jobs"], options["timeout_s"])
    engine = None if options["engine"] is None else Engine(options["engine"], options["tolerance"])
    replays = ReplayOptions(_replay_count(replay), options["specs_dir"], options["system"], engine, run)
    report = validate_library(library, replays)
    click.echo(_as_json(report) if as_json else _as_text(report))
    sys.exit(int(report.grade))


def _replay_count(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise InvalidSettingError(f"--replay is {text!r}; expected 'all' or a number of records")
    return int(text)


def _as_text(report: ValidationReport) -> str:
    lines = []
    for finding in report.findings:
        label = "note" if finding.grade is Grade.HELD else finding.grade.name.lower()
        lines.append(f"{label}: {finding.message}")
    lines.append(
        f"{_WORDS[report.grade]} - {report.path}: {report.records} records drawn again, {report.replayed} replayed"
    )
    return "\n".join(lines)


def _as_json(report: ValidationReport) -> str:
    findings = [{"grade": finding.grade.name.lower(), "message": finding.message} for finding in report.findings]
    facts = {**asdict(report), "path": str(report.path), "findings": findings, "grade": report.grade.name.lower()}
    return json.dumps(facts, indent=1)
