"""`scenario-lib evaluate`: how policies do on a library that they were not trained on."""

import sys
from pathlib import Path
from typing import Any

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.execution.tasks import RunOptions
from scenario_lib.learning.comparison import SCENARIOS, Comparison, write_comparison
from scenario_lib.learning.evaluation import EvaluationOptions, evaluate
from scenario_lib.library.ownership import require_outside_libraries
from scenario_lib.simulation.engines import Engine

from .console import echo_facts, progress_bar
from .engine_options import engine_options
from .options import jobs_option, json_option, specs_dir_option, timeout_option

EXIT_SOME_FAILED = 6


@click.command("evaluate")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--policy", "policies", multiple=True, type=click.Path(path_type=Path), help="A trained policy; repeat.")
@click.option(
    "--team",
    "teams",
    multiple=True,
    metavar="DIR,DIR",
    help="Trained policies in one rollout, each at sites of its own; repeat.",
)
@click.option(
    "--baselines",
    default="none,rule-based,ofo",
    show_default=True,
    help='Named controls, also rule-based-zonal, or "".',
)
@click.option("--records", default="all", show_default=True, metavar="all|N", help="Replay N records, spread evenly.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Also write scenarios.parquet, summary.parquet, table.txt."
)
@click.option("--allow-shared-seeds", is_flag=True, help="Warn, instead of refusing, if a policy was trained on them.")
@click.option("--system", help="Experiment's TOML file, for a library on a feeder of your own.")
@engine_options
@specs_dir_option
@jobs_option
@timeout_option
@json_option
def command(library: Path, out: Path | None, as_json: bool, **options: Any) -> None:
    """Replay LIBRARY, whole hours, under no control, a rule, OFO and trained policies, and compare.

    \b
    Exit codes: 0 done; 1 refused or failed; 2 usage; 6 done, but some rollouts failed.
    """
    if out is not None:
        require_outside_libraries(out.resolve() / SCENARIOS)
    asked = EvaluationOptions(
        policies=options["policies"],
        teams=tuple(tuple(Path(part.strip()) for part in team.split(",")) for team in options["teams"]),
        baselines=tuple(name.strip() for name in options["baselines"].split(",") if name.strip()),
        records=_count(options["records"]),
        specs_dir=options["specs_dir"],
        system=options["system"],
        allow_shared_seeds=options["allow_shared_seeds"],
        engine=Engine(options["engine"], options["tolerance"]),
        run=RunOptions(options["jobs"], options["timeout_s"]),
    )
    with progress_bar(unit="rollout") as bar:
        comparison = evaluate(library, asked, lambda done, total: _show(bar, done, total))
    if out is not None:
        write_comparison(out, comparison)
    echo_facts(comparison.to_dict(), comparison.lines(), as_json)
    _finish(comparison)


def _count(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise InvalidSettingError(f"--records is {text!r}; expected a number of records, or all")
    return int(text)


def _show(bar: Any, done: int, total: int) -> None:
    bar.total = total
    bar.update(done - bar.n)


def _finish(comparison: Comparison) -> None:
    if comparison.failed:
        click.echo(f"{len(comparison.failed)} rollouts failed; their scenarios are left out of the means", err=True)
        sys.exit(EXIT_SOME_FAILED)
