"""`scenario-lib validate`: checks that a library holds what it says, and that it replays."""

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.simulation.engines import ENGINES, TOLERANCES, Engine
from scenario_lib.validation.findings import Cause, Finding, Grade, RecordVerdict
from scenario_lib.validation.replay import NO_LIMITS, FlipLimits, ReplayOptions
from scenario_lib.validation.validate import ValidationReport, validate_library

from .console import json_option, strict_json
from .options import cluster_options, jobs_option, run_options, specs_dir_option, timeout_option

_WORDS = {
    Grade.HELD: "held: identical",
    Grade.WITHIN_TOLERANCE: "held within tolerance",
    Grade.EXPLAINED: "held, flips explained by rounding",
    Grade.NOT_VERIFIABLE: "cannot be verified",
    Grade.DIFFERS: "DIFFERS",
}
_OF_RECORDS = {
    Grade.HELD: "identical",
    Grade.WITHIN_TOLERANCE: "identical within tolerance",
    Grade.EXPLAINED: "explained by rounding",
    Grade.NOT_VERIFIABLE: "not verifiable",
    Grade.DIFFERS: "different",
}
_CAUSES = {
    Cause.CIRCUIT: "another circuit",
    Cause.MODELS: "other power traces or fits",
    Cause.TRAINING_TRACE: "another training trace",
    Cause.EXPERIMENT: "another experiment",
    Cause.RANDOM_STREAM: "numpy's random stream changed",
    Cause.VERSIONS: "other versions",
    Cause.CPU_FEATURES: "another processor",
    Cause.EDITED_RECORD: "an edited record",
    Cause.EDITED_RECIPE: "an edited recipe",
    Cause.DAMAGED_FILE: "a damaged file",
}


@click.command("validate")
@click.argument("library", type=click.Path(path_type=Path))
@click.option(
    "--replay", default="0", show_default=True, metavar="all|N", help="Number of records whose rollouts are run again."
)
@click.option("--system", help="The experiment's TOML file, for a library on a feeder of your own.")
@click.option("--engine", type=click.Choice(ENGINES), help="Engine to replay on.  [default: the record's own]")
@click.option(
    "--tolerance",
    type=click.Choice(TOLERANCES),
    default="opendss",
    show_default=True,
    help="Where the power flow of --engine compiled stops.",
)
@click.option(
    "--from-numbers", is_flag=True, help="Replay the stored numbers and draw nothing, for a library of another numpy."
)
@click.option("--max-explained", type=int, help="Most records whose figures a flip explained by rounding may change.")
@click.option(
    "--max-explained-change",
    type=float,
    help="Largest part by which such a flip may change an OFO integral, such as 0.05.",
)
@specs_dir_option
@jobs_option
@cluster_options
@timeout_option
@json_option
def validate_command(library: Path, replay: str, as_json: bool, **options: Any) -> None:
    """Check that files are whole and unchanged, draw every record again, and replay rollouts bit for bit.

    \b
    Example: scenario-lib validate libraries/ieee13 --replay 5

    Every record gets a verdict: identical, identical within tolerance (penalties within 1e-10 pu^2), or different;
    with the cause, where it can be told. On another engine it may also be explained by rounding: OFO decided otherwise
    on a rounding boundary, which changed figures but not the verdict.

    \b
    Exit codes: 0 held, or explained by rounding; 1 differs; 2 usage; 3 cannot be verified (no digests); 4 equal within
    tolerance.
    """
    run = run_options(options)
    engine = None if options["engine"] is None else Engine(options["engine"], options["tolerance"])
    flips = FlipLimits(options["max_explained"], options["max_explained_change"])
    if flips != NO_LIMITS and engine is None:
        raise InvalidSettingError(
            "--max-explained and --max-explained-change say nothing without --engine; give it too"
        )
    given = (options["specs_dir"], options["system"], engine, run, options["from_numbers"], flips)
    replays = ReplayOptions(_replay_count(replay), *given)
    report = validate_library(library, replays)
    click.echo(_as_json(report) if as_json else _as_text(report))
    sys.exit(report.grade.exit_code)


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
    if report.causes:
        lines.append(f"likely cause: {', '.join(_CAUSES[cause] for cause in report.causes)}")
    how = "made of stored numbers" if report.from_numbers else "drawn again"
    counts = f"{report.records} records {how}, {report.replayed} replayed{_counts(report)}"
    lines.append(f"{_WORDS[report.grade]} - {report.path}: {counts}")
    return "\n".join(lines)


def _counts(report: ValidationReport) -> str:
    """How many records are how, unless all are identical."""
    grades = Counter(verdict.grade for verdict in report.verdicts)
    if set(grades) == {Grade.HELD}:
        return ""
    return "; " + ", ".join(f"{grades[grade]} {word}" for grade, word in _OF_RECORDS.items() if grades[grade])


def _as_json(report: ValidationReport) -> str:
    facts = {
        "path": str(report.path),
        "grade": report.grade.name.lower(),
        "causes": list(report.causes),
        "records": report.records,
        "replayed": report.replayed,
        "from_numbers": report.from_numbers,
        "findings": [_graded(finding) for finding in report.findings],
        "verdicts": [_graded(verdict) for verdict in report.verdicts],
    }
    return strict_json(facts)


def _graded(part: Finding | RecordVerdict) -> dict[str, Any]:
    return {**asdict(part), "grade": part.grade.name.lower()}
