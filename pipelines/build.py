"""`scenario-lib build`: recipe and options in, a library out, and its summary on one screen or as plain values."""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np

from scenario_lib.analysis.info import Spread, spread_text
from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.library.layout import CANDIDATES, REPORT
from scenario_lib.screening.build import BuildResult, build_strata
from scenario_lib.screening.criteria import recovery_frac
from scenario_lib.screening.recipe_file import (
    RecipeFile,
    Tables,
    parse_strata,
    planned,
    read_recipe_tables,
    require_setting,
    unread_settings,
    with_overlay,
    with_request,
    with_setting,
)
from scenario_lib.screening.request import BuildOptions
from scenario_lib.simulation.engines import Engine

from .console import echo_facts, json_option, name_and_value, parse_seeds, progress_bar, show_progress
from .options import (
    cluster_of,
    cluster_options,
    engine_options,
    jobs_option,
    recipe_option,
    specs_dir_option,
    timeout_option,
)


def summary_lines(result: BuildResult, wall_s: float) -> list[str]:
    """The summary of a build, line by line."""
    candidates, accepted = result.candidates, result.accepted
    rejected = Counter(str(candidate.reason) for candidate in candidates if not candidate.accepted)
    kinds = Counter(candidate.kind for candidate in accepted)
    lines = [
        f"accepted {len(accepted)} of {len(candidates)} candidates"
        + (f" ({_counts(kinds)})" if accepted else "")
        + (f"; rejected: {_counts(rejected)}" if rejected else "")
    ]
    for stratum in result.strata if len(result.strata) > 1 else ():
        found = Counter(str(candidate.kind) for candidate in stratum.candidates if candidate.accepted)
        counts = _counts(found) or "none"
        lines.append(f"stratum             {stratum.name}: {counts} of {len(stratum.candidates)} candidates")
    spreads = _spreads(result)
    if spreads:
        recovery, integral_pu_s = spreads
        lines.append(f"recovery by OFO     {spread_text(recovery)}")
        lines.append(f"baseline integral   {spread_text(integral_pu_s, 'pu s')}")
    measured_now = len(result.log.seconds_by_seed) - result.log.resumed
    lines.append(
        f"time                {wall_s:.1f} s with {result.log.workers_text}; {result.log.mean_seconds:.2f} s a "
        f"candidate in its worker" + (f"; {wall_s / measured_now:.2f} s a candidate in all" if measured_now else "")
    )
    if result.notice:
        lines.append(f"engine              {result.notice}")
    for candidate in result.failed[:5]:
        failure = candidate.failure
        lines.append(f"failed              seed {candidate.seed}: {candidate.reason}: {failure and failure.message}")
    if len(result.failed) > 5:
        lines.append(f"failed              and {len(result.failed) - 5} more; the candidates table has them all")
    return lines


def _summary_facts(result: BuildResult, wall_s: float) -> dict[str, Any]:
    """The summary of a build as plain values; spreads are lowest, median and highest."""
    recovery, integral_pu_s = _spreads(result) or (None, None)
    return {
        "path": str(result.path),
        "candidates": len(result.candidates),
        "accepted": len(result.accepted),
        "kinds": dict(Counter(candidate.kind for candidate in result.accepted)),
        "reasons": dict(Counter(str(candidate.reason) for candidate in result.candidates)),
        "recovery": recovery,
        "integral_pu_s": integral_pu_s,
        "failed_seeds": [candidate.seed for candidate in result.failed],
        "shortfalls": result.shortfalls,
        "kept_existing": result.kept_existing,
        "notice": result.notice,
        "jobs": result.log.jobs,
        "workers": dict(result.log.by_worker),
        "resumed": result.log.resumed,
        "wall_s": wall_s,
    }


def _spreads(result: BuildResult) -> tuple[Spread, Spread] | None:
    """Recovery and baseline integral (pu s) over the accepted; None without any."""
    figures = [(candidate.baseline, candidate.ofo) for candidate in result.accepted]
    pairs = [(baseline, ofo) for baseline, ofo in figures if baseline and ofo]
    if not pairs:
        return None
    return _spread([recovery_frac(*pair) for pair in pairs]), _spread([first.integral_pu_s for first, _ in pairs])


def _counts(counter: Counter[str | None] | Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items(), key=lambda item: -item[1]))


def _spread(values: list[float]) -> Spread:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return float(low), float(middle), float(high)


EXIT_NOTHING_ACCEPTED = 5
EXIT_SOME_FAILED = 6
EXIT_TARGET_MISSED = 7
EXIT_INTERRUPTED = 130


@click.command("build")
@recipe_option
@click.option("--system", help="A shipped feeder (ieee13, ieee34, ieee123) or an experiment's TOML file.")
@click.option("--candidates", type=int, help="Number of candidates to try.")
@click.option("--accept", type=int, help="Instead: go on in seed order until this many are accepted.")
@click.option(
    "--max-candidates", type=int, help="Most candidates that --accept may try.  [default: 100 times --accept]"
)
@click.option("--seed-start", type=int, help="First index: candidate i has the seed (seed-start + i) * 1000 + 7.")
@click.option("--seeds", help="Instead: exactly these seeds, such as 7,1007.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a setting of the draws or of screening; repeat for more.",
)
@click.option("--overlay/--no-overlay", default=None, help="Draw a training overlay, if the experiment has one.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the library.")
@click.option("--full-table", is_flag=True, help="Simulate OFO also where the baseline already rules a candidate out.")
@click.option("--resume", is_flag=True, help="Continue an unfinished build, if there is one.")
@click.option("--overwrite", is_flag=True, help="Replace an existing library, or discard an unfinished build.")
@click.option("--report/--no-report", default=True, help="Write report.html into the library (extra 'plot').")
@engine_options
@specs_dir_option
@jobs_option
@cluster_options
@timeout_option
@json_option
def build_command(out: Path, as_json: bool, **options: Any) -> None:
    """Draw candidates, simulate each without control and under OFO, and keep those worth training on.

    \b
    Example: scenario-lib build --config ieee13 --accept 50 --out libraries/ieee13
    Exit codes: 0 built; 1 refused or failed; 2 usage; 5 nothing accepted; 6 built, but some candidates failed;
    7 built, but fewer accepted than asked for; 130 interrupted (go on with --resume).
    """
    recipes = _recipes(options)
    if recipes[0].candidates is None:
        raise InvalidSettingError("how many candidates? Give --candidates, --accept or --seeds, or a recipe that does")
    engine = Engine(options["engine"], options["tolerance"])
    strata = planned(recipes, options["specs_dir"], options["full_table"], engine)
    cluster = cluster_of(options)
    build = BuildOptions(out, options["jobs"], options["timeout_s"], options["resume"], options["overwrite"], cluster)
    started = time.monotonic()
    try:
        with progress_bar(unit="candidate") as bar:
            result = build_strata(strata, build, lambda progress: show_progress(bar, progress))
    except KeyboardInterrupt:
        click.echo(f"interrupted; what is finished is kept: the same command with --resume goes on ({out})", err=True)
        sys.exit(EXIT_INTERRUPTED)
    wall_s = time.monotonic() - started
    lines = [*summary_lines(result, wall_s), f"library             {result.path}"]
    page = _page(result.path, recipes[0].system, options["specs_dir"]) if options["report"] else None
    if page:
        lines.append(f"page                {page}")
    echo_facts({**_summary_facts(result, wall_s), "report": page and str(page)}, lines, as_json)
    _finish(result)


def _recipes(options: dict[str, Any]) -> list[RecipeFile]:
    config = options["config"]
    tables = read_recipe_tables(config) if config else {}
    if options["system"] is not None:
        tables["system"] = options["system"]
    if "system" not in tables:
        raise InvalidSettingError("which feeder? Give --system, or --config with a recipe file")
    recipes = parse_strata(tables, str(config))
    changed = _with_options(tables, options)
    try:
        chosen = recipes if changed == tables else parse_strata(changed, "command line")
    except DataFileError as error:
        raise InvalidSettingError(str(error)) from None
    if options["overlay"]:
        _require_overlay(chosen)
    for notice in unread_settings(chosen):
        click.echo(f"notice: {notice}", err=True)
    return chosen


def _require_overlay(recipes: list[RecipeFile]) -> None:
    for recipe in recipes:
        if recipe.experiment().overlay is None:
            raise InvalidSettingError(
                f"--overlay: the experiment {recipe.system} has no training overlay; leave the option away, or "
                f"give the recipe a table [overlay]"
            )


def _with_options(tables: Tables, options: dict[str, Any]) -> Tables:
    if options["overlay"] is not None:
        tables = with_overlay(tables, options["overlay"])
    for setting in options["settings"]:
        require_setting(setting.partition("=")[0].strip())  # before its value, which may be in another form
        tables = with_setting(tables, *name_and_value(setting, "--set"))
    names = ("candidates", "accept", "max_candidates", "seed_start")
    request = {**{name: options[name] for name in names}, "seeds": parse_seeds(options["seeds"])}
    if any(value is not None for value in request.values()):
        tables = with_request(tables, request)
    return tables


def _page(library: Path, system: str, specs_dir: Path | None) -> Path | None:
    """A page that cannot be made is a notice: the library is there, and `scenario-lib report` can be tried again."""
    try:
        from scenario_lib.reporting.library_page import library_page
        from scenario_lib.reporting.page import write_page
        from scenario_lib.reporting.sections import PlayOptions

        write_page(library / REPORT, library_page(library, options=PlayOptions(specs_dir, system)))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the build itself has succeeded
        click.echo(f"no page was written: {str(error) or type(error).__name__}", err=True)
        return None
    return library / REPORT


def _finish(result: BuildResult) -> None:
    if not result.accepted:
        kept = "; the library that was there is untouched" if result.kept_existing else ""
        table = result.path / CANDIDATES
        click.echo(f"nothing was accepted; {table} says why, and how far voltages went{kept}", err=True)
        sys.exit(EXIT_NOTHING_ACCEPTED)
    if result.failed:
        sys.exit(EXIT_SOME_FAILED)
    if result.target_missed:
        short = "; ".join(result.shortfalls)
        click.echo(f"fewer were accepted than asked for: {short}; the brake (--max-candidates) was reached", err=True)
        sys.exit(EXIT_TARGET_MISSED)
