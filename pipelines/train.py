"""`scenario-lib train`: a library in, a policy out."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scenario_lib.learning.settings import TrainingSettings, parse_settings, read_settings_tables, with_settings
from scenario_lib.learning.training import TrainingProgress, TrainingResult, TrainingRun, train
from scenario_lib.screening.readable import plain_figure

from .console import echo_facts, progress_bar
from .options import json_option, name_and_value, specs_dir_option

EXIT_INTERRUPTED = 130


@click.command("train")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the run.")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Settings file; options win over it.")
@click.option("--steps", type=int, help="Environment steps in all.  [default: 1000000]")
@click.option("--seed", type=int, help="Of weights, actions and scenario order.  [default: 0]")
@click.option("--envs", type=int, help="Environments that play at the same time.  [default: 8]")
@click.option("--engine", help="compiled, or reference: OpenDSS, with --envs 1.  [default: compiled]")
@click.option("--observation", help="full-voltage, per-bus-summary, per-zone-summary or system-summary-only.")
@click.option("--action", help="delta or coupled.")
@click.option("--site", help="The agent's site.  [default: the first]")
@click.option("--shared", is_flag=True, default=None, help="One policy for all sites.")
@click.option("--reward", "rewards", multiple=True, metavar="NAME=VALUE", help="A weight, such as w_switch=0.02.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any other setting, such as gamma=0.98.")
@click.option("--system", help="Experiment's TOML file, for a library on a feeder of your own.")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint, if there is one.")
@click.option("--device", default="cpu", show_default=True, help="PyTorch device.")
@specs_dir_option
@json_option
def command(library: Path, out: Path, as_json: bool, **options: Any) -> None:
    """Train a policy on LIBRARY with PPO. Needs the extra: pip install 'scenario-lib[train]'.

    \b
    Exit codes: 0 trained; 1 refused or failed; 2 usage; 130 interrupted (go on with --resume).
    """
    run = TrainingRun(
        library, out, _settings(options), options["specs_dir"], options["system"], options["resume"], options["device"]
    )
    try:
        with progress_bar(unit="step", unit_scale=True) as bar:
            result = train(run, lambda progress: _show(bar, progress))
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
    return parse_settings(with_settings(tables, changes), str(config or "command line"))


def _show(bar: Any, progress: TrainingProgress) -> None:
    bar.total = progress.total
    if progress.mean_return is not None:
        bar.set_postfix(episodes=progress.episodes, mean_return=f"{progress.mean_return:.4g}", refresh=False)
    bar.update(progress.steps - bar.n)
