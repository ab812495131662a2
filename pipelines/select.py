"""`scenario-lib select`: a library's candidates by another band."""

import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.place import require_place
from scenario_lib.screening.build import BuildResult
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions
from scenario_lib.screening.reselect import SelectionReport, run_selection, select_again, selection_report
from scenario_lib.screening.stored_strata import StoredStratum, stored_strata

from .build import EXIT_INTERRUPTED, EXIT_NOTHING_ACCEPTED, EXIT_SOME_FAILED
from .console import echo_facts, progress_bar
from .options import jobs_option, json_option, overwrite_option, show_progress, specs_dir_option, timeout_option

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
def command(library: Path, out: Path | None, run: bool, as_json: bool, **options: Any) -> None:
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
        report = selection_report(stored, result.chosen, result.path)
        echo_facts(report.to_dict(), report.lines(), as_json)
        _finish_run(result)
    report = select_again(library, stored, out, options["overwrite"])
    echo_facts(report.to_dict(), report.lines(), as_json)
    _finish(report, written=out is not None)


def _thresholds(options: dict[str, Any]) -> dict[str, float]:
    return {name: options[name] for name in ScreeningCriteria().to_dict() if options.get(name) is not None}


def _run(library: Path, stored: list[StoredStratum], out: Path, options: dict[str, Any]) -> BuildResult:
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
