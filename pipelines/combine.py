"""Libraries in, libraries out: the commands `merge`, `split`, `export`, `leaks`, `convert` and `select`."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.combine import export_recipe, merge_libraries
from scenario_lib.library.convert import CONTRACT, SHARDED, Conversion, convert_library
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
from .console import echo_facts, json_option, progress_bar, show_progress
from .options import (
    cluster_of,
    cluster_options,
    jobs_option,
    out_option,
    overwrite_option,
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

    \b
    Example: scenario-lib merge libraries/one libraries/two --out libraries/both

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
    help="Size of each part: a fraction (0.8) or a number of records (160).",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed that decides which records go to which part.",
)
@overwrite_option
@json_option
def split_command(library: Path, out: Path, parts: str, seed: int, overwrite: bool, as_json: bool) -> None:
    """Split LIBRARY into parts that share neither a seed nor a scenario, in proportion within every recipe and kind.

    The same seed and parts give the same libraries. Records that no part takes are left out and counted.

    \b
    Example: scenario-lib split libraries/ieee13 --out libraries/split
    Exit codes: 0 split; 1 refused or failed; 2 usage.
    """
    reports = split_library(library, out, parse_parts(parts), seed, overwrite)
    echo_facts([report.to_dict() for report in reports], (report.line for report in reports), as_json)


@click.command("export")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--recipe", help="Identifier of the recipe, or name of its stratum.  [default: the only one]")
@out_option
@overwrite_option
@json_option
def export_command(library: Path, recipe: str | None, out: Path, overwrite: bool, as_json: bool) -> None:
    """Write one recipe of LIBRARY as a library of its own, which openg2g's example can load.

    \b
    Example: scenario-lib export libraries/both --recipe heavy --out libraries/heavy
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
    FIRST are shown as well, as a measure of what is near.

    \b
    Example: scenario-lib leaks libraries/split/train libraries/split/test
    Exit codes: 0 nothing in common; 1 failed; 2 usage; 8 shared seeds, equal scenarios, or records that are too near.
    """
    report = find_leaks(first, second, nearer_than)
    echo_facts(report.to_dict(), report.lines(), as_json)
    sys.exit(EXIT_LEAKS if report.leaks else 0)


_BYTES_PER_MB = 1e6

_STORE_OF = {"openg2g": CONTRACT, "contract": CONTRACT, "sharded": SHARDED}
"""Forms of a library by the words that `--to` takes."""


@click.command("convert")
@click.argument("library", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "store",
    type=click.Choice(list(_STORE_OF)),
    required=True,
    metavar="[openg2g|sharded]",
    help="Form of the new library: openg2g's two files (contract is another word for it), or sharded.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the new library.")
@click.option("--overwrite", is_flag=True, help="Replace a library that is there.")
@json_option
def convert_command(library: Path, store: str, out: Path, overwrite: bool, as_json: bool) -> None:
    """Write LIBRARY in its other form: same records, scenarios and traces; converted back, the same bytes.

    A sharded library opens at once and shares its memory among processes, however many records it has. openg2g's
    example reads the other form only, two files. LIBRARY stays as it is.

    \b
    Example: scenario-lib convert libraries/ieee13 --to sharded --out libraries/ieee13-sharded
    Exit codes: 0 converted; 1 refused or failed, and nothing was written; 2 usage.
    """
    done = convert_library(library, _STORE_OF[store], out, overwrite)
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
@click.option("--min-recovery-frac", type=float, help="Least part of the baseline's integral that OFO must remove.")
@click.option("--max-recovery-frac", type=float, help="Largest part of it that OFO may remove.")
@click.option("--min-baseline-integral", type=float, help="Least integral of an undervoltage scenario (pu s).")
@click.option("--min-baseline-integral-over", type=float, help="Least integral of an overvoltage scenario (pu s).")
@click.option("--max-baseline-integral", type=float, help="Largest integral of any scenario (pu s).")
@click.option("--max-always-min", type=int, help="Most scenarios in which OFO merely stays at the smallest batches.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the library; without it nothing is written.")
@click.option("--run", is_flag=True, help="Simulate the candidates that need it.")
@click.option("--resume", is_flag=True, help="With --run: continue an unfinished run, if there is one.")
@click.option("--system", help="With --run: the experiment's TOML file, for a library on a feeder of your own.")
@overwrite_option
@specs_dir_option
@jobs_option
@cluster_options
@timeout_option
@json_option
def select_command(library: Path, out: Path | None, run: bool, as_json: bool, **options: Any) -> None:
    """Screen LIBRARY's candidates again by other thresholds; those not given stay as they were.

    \b
    Example: scenario-lib select libraries/ieee13 --min-recovery-frac 0.5 --out libraries/stricter

    Nothing is simulated, unless --run is given: stored figures suffice for most candidates. The others, whose OFO
    rollout did not run or whose traces were not kept, are named, and are in the new table with the reason needs_run.
    With --run the library is, byte for byte, the one that a build of the same candidates by these thresholds gives.

    \b
    Exit codes: 0 done; 1 refused or failed; 2 usage; 5 nothing accepted, nothing written; 6 some runs failed;
    9 done, but some candidates need a run; 130 interrupted (go on with --resume).
    """
    if cluster_of(options) is not None and not run:
        raise InvalidSettingError("--backend runs candidates, which select does with --run only; give it too")
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
    cluster = cluster_of(options)
    build = BuildOptions(out, options["jobs"], options["timeout_s"], options["resume"], options["overwrite"], cluster)
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
