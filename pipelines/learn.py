"""`scenario-lib train`: a library in, a policy out.

`scenario-lib evaluate`: how policies do on a library that they were not trained on.

`scenario-lib rollouts`: every second of such rollouts, as a table.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scenario_lib.analysis.info import plain_figure
from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.learning.comparison import SCENARIOS, Comparison, write_comparison
from scenario_lib.learning.evaluation import EvaluationOptions, evaluate
from scenario_lib.learning.run_folder import TrainingProgress, TrainingResult
from scenario_lib.learning.settings import TrainingSettings, parse_settings, read_settings_tables, with_settings
from scenario_lib.learning.training import TrainingRun, train
from scenario_lib.learning.trajectories import write_rollouts
from scenario_lib.library.place import require_outside_libraries
from scenario_lib.simulation.engines import Engine
from scenario_lib.simulation.opendss.datacenters import POLICIES

from .console import echo_facts, json_option, name_and_value, progress_bar
from .options import (
    SettingsFile,
    cluster_options,
    engine_options,
    jobs_option,
    run_options,
    specs_dir_option,
    timeout_option,
)

EXIT_INTERRUPTED = 130


@click.command("train")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the run.")
@click.option(
    "--config",
    type=SettingsFile("training"),
    help="Settings file, or the name of a shipped one; options win over it.",
)
@click.option("--steps", type=int, help="Environment steps in all.  [default: 1000000]")
@click.option("--seed", type=int, help="Seed of weights, actions and the order of scenarios.  [default: 0]")
@click.option("--envs", type=int, help="Environments that play at the same time.  [default: 8]")
@click.option("--engine", help="compiled, or reference (OpenDSS, with --envs 1).  [default: compiled]")
@click.option(
    "--observation",
    help="Form of the observation: full-voltage, per-bus-summary, per-zone-summary or system-summary-only.",
)
@click.option("--action", help="Form of the action: delta or coupled.")
@click.option("--site", help="The agent's site.  [default: the first]")
@click.option("--shared", is_flag=True, default=None, help="Train one policy for all sites.")
@click.option(
    "--reward",
    "rewards",
    multiple=True,
    metavar="NAME=VALUE",
    help="A weight of the reward, such as w_switch=0.02; repeat for more.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting, such as gamma=0.98; repeat for more.",
)
@click.option("--system", help="The experiment's TOML file, for a library on a feeder of your own.")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint, if there is one.")
@click.option("--device", default="cpu", show_default=True, help="PyTorch device.")
@specs_dir_option
@json_option
def train_command(library: Path, out: Path, as_json: bool, **options: Any) -> None:
    """Train a policy on LIBRARY with PPO. Needs the extra: pip install 'scenario-lib[train]'.

    \b
    Example: scenario-lib train libraries/split/train --out runs/first --steps 200000
    Exit codes: 0 trained; 1 refused or failed; 2 usage; 130 interrupted (go on with --resume).
    """
    run = TrainingRun(
        library, out, _settings(options), options["specs_dir"], options["system"], options["resume"], options["device"]
    )
    try:
        with progress_bar(unit="step", unit_scale=True) as bar:
            result = train(run, lambda progress: _show_progress(bar, progress))
    except KeyboardInterrupt:
        click.echo(
            f"interrupted; the last checkpoint is kept: the same command with --resume goes on ({out})", err=True
        )
        sys.exit(EXIT_INTERRUPTED)
    echo_facts({**asdict(result), "policy": str(result.policy)}, _lines(result), as_json)


def _lines(result: TrainingResult) -> Iterator[str]:
    mean = result.mean_return
    yield f"steps               {result.steps}, {result.steps_per_s:.0f} a second"
    if mean is None:
        yield "episodes            0: the run was shorter than one (environments share the steps); give more --steps"
    else:
        yield f"episodes            {result.episodes}, mean return of the last {plain_figure(mean)}"
    yield f"policy              {result.policy}"


def _settings(options: dict[str, Any]) -> TrainingSettings:
    config = options["config"]
    tables = read_settings_tables(config) if config else {}
    named = ("steps", "seed", "envs", "engine", "observation", "action", "site", "shared")
    changes = {name: options[name] for name in named if options[name] is not None}
    for option in ("reward", "set"):
        for text in options["rewards" if option == "reward" else "settings"]:
            name, value = name_and_value(text, f"--{option}")
            changes[name] = value
    settings = parse_settings(tables, str(config))
    try:
        return parse_settings(with_settings(tables, changes), "command line") if changes else settings
    except DataFileError as error:
        raise InvalidSettingError(str(error)) from None


def _show_progress(bar: Any, progress: TrainingProgress) -> None:
    bar.total = progress.total
    if progress.mean_return is not None:
        bar.set_postfix(episodes=progress.episodes, mean_return=f"{progress.mean_return:.4g}", refresh=False)
    bar.update(progress.steps - bar.n)


EXIT_SOME_FAILED = 6


@click.command("evaluate")
@click.argument("library", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="DIR|MODULE:NAME",
    help="A trained policy, or a controller of your own as package.module:name; repeat.",
)
@click.option(
    "--team",
    "teams",
    multiple=True,
    metavar="DIR,DIR",
    help="Trained policies in one rollout, each at sites of its own; repeat for more.",
)
@click.option(
    "--baselines",
    default="none,rule-based,ofo",
    show_default=True,
    help='Controls to compare with, also rule-based-zonal, always-smallest, always-largest, deadband; "" for none.',
)
@click.option(
    "--records", default="all", show_default=True, metavar="all|N", help="Number of records to replay, spread evenly."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Directory for scenarios.parquet, summary.parquet, paired.parquet and table.txt.",
)
@click.option("--allow-shared-seeds", is_flag=True, help="Warn, instead of refusing, if a policy was trained on them.")
@click.option("--system", help="The experiment's TOML file, for a library on a feeder of your own.")
@engine_options
@specs_dir_option
@jobs_option
@cluster_options
@timeout_option
@json_option
def evaluate_command(library: Path, out: Path | None, as_json: bool, **options: Any) -> None:
    """Replay LIBRARY, whole hours, under no control, a rule, OFO and trained policies, and compare.

    \b
    Example: scenario-lib evaluate libraries/split/test --policy runs/first --out evaluations/first
    Exit codes: 0 done; 1 refused or failed; 2 usage; 6 done, but some rollouts failed.
    """
    if out is not None:
        require_outside_libraries(out.resolve() / SCENARIOS)
    baselines = tuple(name.strip() for name in options["baselines"].split(",") if name.strip())
    teams = tuple(tuple(Path(part.strip()) for part in team.split(",")) for team in options["teams"])
    asked = _evaluation_options(options, baselines, options["policies"], teams)
    with progress_bar(unit="rollout") as bar:
        comparison = evaluate(library, asked, lambda done, total: _show_tables(bar, done, total))
    if out is not None:
        write_comparison(out, comparison)
    echo_facts(comparison.to_dict(), comparison.lines(), as_json)
    _finish(comparison)


def _evaluation_options(
    options: dict[str, Any],
    baselines: tuple[str, ...],
    policies: Sequence[Any],  # texts, which `EvaluationOptions` converts
    teams: tuple[tuple[Path, ...], ...] = (),
) -> EvaluationOptions:
    """What `evaluate` and `rollouts` ask for alike; policies are folders, or controllers as "package.module:name"."""
    return EvaluationOptions(
        baselines=baselines,
        policies=tuple(Path(text) for text in policies if not _is_reference(text)),
        controllers=tuple(text for text in policies if _is_reference(text)),
        teams=teams,
        records=_count(options["records"]),
        specs_dir=options["specs_dir"],
        system=options["system"],
        allow_shared_seeds=options["allow_shared_seeds"],
        engine=Engine(options["engine"], options["tolerance"]),
        run=run_options(options),
    )


def _is_reference(text: str) -> bool:
    """Whether a policy is given as "package.module:name"; a folder of that name wins."""
    return ":" in text and not Path(text).exists()


def _count(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise InvalidSettingError(f"--records is {text!r}; expected a number of records, or all")
    return int(text)


def _show_tables(bar: Any, done: int, total: int) -> None:
    bar.total = total
    bar.update(done - bar.n)


def _finish(comparison: Comparison) -> None:
    if comparison.failed:
        click.echo(f"{len(comparison.failed)} rollouts failed; their scenarios are left out of the means", err=True)
        sys.exit(EXIT_SOME_FAILED)


@click.command("rollouts")
@click.argument("library", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "policies",
    multiple=True,
    required=True,
    metavar="NAME|DIR|MODULE:NAME",
    help="A policy by name (none, ofo, rule-based, ...), a trained one, or a controller of your own; repeat.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="Parquet file to write.")
@click.option("--voltages", is_flag=True, help="Write all voltages of each second, not only lowest and highest.")
@click.option("--records", default="all", show_default=True, metavar="all|N", help="Records to play, spread evenly.")
@click.option("--allow-shared-seeds", is_flag=True, help="Warn, instead of refusing, if a policy was trained on them.")
@click.option("--system", help="The experiment's TOML file, for a library on a feeder of your own.")
@engine_options
@specs_dir_option
@jobs_option
@cluster_options
@timeout_option
@json_option
def rollouts_command(library: Path, out: Path, voltages: bool, as_json: bool, **options: Any) -> None:
    """Play LIBRARY, whole hours, and write a row for every second: voltages, power, batch sizes, latency, reward.

    \b
    Example: scenario-lib rollouts libraries/ieee13 --policy none --policy ofo --out rollouts.parquet
    Exit codes: 0 written; 1 refused or failed; 2 usage; 6 written, but some rollouts failed and are left out.
    """
    named = tuple(text for text in options["policies"] if text in POLICIES and not Path(text).exists())
    asked = _evaluation_options(options, named, [text for text in options["policies"] if text not in named])
    with progress_bar(unit="rollout") as bar:
        written = write_rollouts(library, out, asked, voltages, lambda done, total: _show_tables(bar, done, total))
    for warning in written.warnings:
        click.echo(f"warning: {warning}", err=True)
    failed = [{"seed": seed, "control": control, "failure": failure} for seed, control, failure in written.failed]
    lines = [f"{written.path}: {written.rollouts} rollouts, a row a second"]
    echo_facts({"path": str(written.path), "rollouts": written.rollouts, "failed": failed}, lines, as_json)
    if failed:
        click.echo(f"{len(failed)} rollouts failed and are left out", err=True)
        sys.exit(EXIT_SOME_FAILED)
