"""`scenario-lib merge`: several libraries in, one out.

`scenario-lib split`: one library in, train, validation and test out.

`scenario-lib export`: one recipe of a library, as a library that openg2g's example loads.

`scenario-lib leaks`: what two libraries have in common that a fair test does not allow.

`scenario-lib convert`: the same library in the other of its two forms.

`scenario-lib select`: a library's candidates by another band.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.combine import export_recipe, merge_libraries
from scenario_lib.library.convert import STORES, Conversion, convert_library
from scenario_lib.library.leaks import find_leaks
from scenario_lib.library.place import require_place
from scenario_lib.library.split import parse_parts, split_library
from scenario_lib.screening.build import BuildResult
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions
from scenario_lib.screening.reselect import (
    SelectionReport,
    run_selection,
    select_again,
    selection_report,
    stored_strata,
)
from scenario_lib.screening.select import Stratum

from .build import EXIT_INTERRUPTED, EXIT_NOTHING_ACCEPTED, EXIT_SOME_FAILED
from .console import (
    echo_facts,
    jobs_option,
    json_option,
    out_option,
    overwrite_option,
    progress_bar,
    show_progress,
    specs_dir_option,
    timeout_option,
)


@click.command("merge")
@click.argument("libraries", nargs=-1, type=click.Path(path_type=Path))
@out_option
@overwrite_option
@json_option
def merge_command(libraries: tuple[Path, ...], out: Path, overwrite: bool, as_json: bool) -> None:
    """Merge LIBRARIES into one, in which every record keeps its own recipe and no scenario is there twice.

    Every record is drawn again on the way; one that does not replay stops the merge. The order of LIBRARIES does not
    matter. Libraries written by openg2g's example have no digests, and are refused: build their seeds again.

    \b
    Exit codes: 0 merged; 1 refused or failed; 2 usage.
    """
    report = merge_libraries(libraries, out, overwrite)
    echo_facts(report.to_dict(), report.lines(), as_json)


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
def split_command(library: Path, out: Path, parts: str, seed: int, overwrite: bool, as_json: bool) -> None:
    """Split LIBRARY into parts that share neither a seed nor a scenario, in proportion within every recipe and kind.

    The same seed and parts give the same libraries. What no part takes is left out, and said.

    \b
    Exit codes: 0 split; 1 refused or failed; 2 usage.
    """
    reports = split_library(library, out, parse_parts(parts), seed, overwrite)
    echo_facts([report.to_dict() for report in reports], (report.line for report in reports), as_json)


@click.command("export")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--recipe", help="Its identifier, or the name of its stratum.  [default: the only one]")
@out_option
@overwrite_option
@json_option
def export_command(library: Path, recipe: str | None, out: Path, overwrite: bool, as_json: bool) -> None:
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
def leaks_command(first: Path, second: Path, nearer_than: float | None, as_json: bool) -> None:
    """Say which seeds and scenarios FIRST (train, say) and SECOND (test) share, and how near their records are.

    Distances are root mean squares over all drawn parameters, each in units of its standard deviation; those within
    FIRST are shown beside, as a measure of what is near.

    \b
    Exit codes: 0 nothing in common; 1 failed; 2 usage; 8 shared seeds, equal scenarios, or records that are too near.
    """
    report = find_leaks(first, second, nearer_than)
    echo_facts(report.to_dict(), report.lines(), as_json)
    sys.exit(EXIT_LEAKS if report.leaks else 0)


_BYTES_PER_MB = 1e6


@click.command("convert")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--to", "store", type=click.Choice(STORES), required=True, help="Sharded, or the contract's two files.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the new library.")
@click.option("--overwrite", is_flag=True, help="Replace a library that is there.")
@json_option
def convert_command(library: Path, store: str, out: Path, overwrite: bool, as_json: bool) -> None:
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


EXIT_NEEDS_RUN = 9


@click.command("select")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--min-recovery-frac", type=float, help="Least part of the baseline's integral that OFO removes.")
@click.option("--max-recovery-frac", type=float, help="Largest part.")
@click.option("--min-baseline-integral", type=float, help="Least integral of an undervoltage scenario (pu s).")
@click.option("--min-baseline-integral-over", type=float, help="The same where the upper limit is broken (pu s).")
@click.option("--max-baseline-integral", type=float, help="Largest integral (pu s).")
@click.option("--max-always-min", type=int, help="Most scenarios in which OFO merely stays at the smallest batches.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the library; without it nothing is written.")
@click.option("--run", is_flag=True, help="Simulate the candidates that need it.")
@click.option("--resume", is_flag=True, help="With --run: continue an unfinished one, if there is one.")
@click.option("--system", help="With --run: experiment's TOML file, for a library on a feeder of your own.")
@overwrite_option
@specs_dir_option
@jobs_option
@timeout_option
@json_option
def select_command(library: Path, out: Path | None, run: bool, as_json: bool, **options: Any) -> None:
    """Screen LIBRARY's candidates again by other thresholds; those not given stay as they were.

    Nothing is simulated, unless --run is given: stored figures suffice for most candidates. The others, whose OFO
    rollout did not run or whose traces were not kept, are named, and are in the new table with the reason needs_run.
    With --run the library is, byte for byte, the one that a build of the same candidates by these thresholds gives.

    \b
    Exit codes: 0 done; 1 refused or failed; 2 usage; 5 nothing accepted, nothing written; 6 some runs failed;
    9 done, but some candidates need a run; 130 interrupted (go on with --resume).
    """
    if run and out is None:
        raise InvalidSettingError("--run builds a library; give its directory as --out")
    if out is not None:
        require_place(out, options["overwrite"], [library])
    stored = stored_strata(library, _thresholds(options), options["specs_dir"])
    if run and out is not None:
        result = _run(library, stored, out, options)
        report = selection_report(stored, result.candidates, result.path)
        echo_facts(report.to_dict(), report.lines(), as_json)
        _finish_run(result)
    report = select_again(library, stored, out, options["overwrite"])
    echo_facts(report.to_dict(), report.lines(), as_json)
    _finish(report, written=out is not None)


def _thresholds(options: dict[str, Any]) -> dict[str, float]:
    return {name: options[name] for name in ScreeningCriteria().to_dict() if options.get(name) is not None}


def _run(library: Path, stored: list[Stratum], out: Path, options: dict[str, Any]) -> BuildResult:
    build = BuildOptions(out, options["jobs"], options["timeout_s"], options["resume"], options["overwrite"])
    try:
        with progress_bar(unit="candidate") as bar:
            return run_selection(
                library, stored, build, options["system"], lambda progress: show_progress(bar, progress)
            )
    except KeyboardInterrupt:
        click.echo(f"interrupted; what is finished is kept: the same command with --resume goes on ({out})", err=True)
        sys.exit(EXIT_INTERRUPTED)


def _finish_run(result: BuildResult) -> NoReturn:
    if not result.accepted:
        sys.exit(EXIT_NOTHING_ACCEPTED)
    sys.exit(EXIT_SOME_FAILED if result.failed else 0)


def _finish(report: SelectionReport, written: bool) -> None:
    if not report.kept:
        click.echo("nothing is accepted by these thresholds" + ("; nothing was written" if written else ""), err=True)
        sys.exit(EXIT_NOTHING_ACCEPTED)
    if report.needs_run:
        click.echo("some candidates need a run; --run does them", err=True)
        sys.exit(EXIT_NEEDS_RUN)
