"""`scenario-lib show`: one drawn scenario as JSON."""

from pathlib import Path
from typing import Any

import click

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.recipe_file import read_recipe_tables
from scenario_lib.screening.recipe_strata import parse_strata, recipe_for_seed

from .console import echo_json


@click.command("show")
@click.argument("seed", type=int)
@click.option("--config", type=click.Path(path_type=Path), help="Recipe file to draw with.")
@click.option("--system", help="Draw on this feeder with the default settings.")
@click.option("--library", type=click.Path(path_type=Path), help="Library whose record of that seed is shown.")
@click.option("--json", is_flag=True, expose_value=False, help="As everywhere; a scenario is printed as JSON anyway.")
def command(seed: int, config: Path | None, system: str | None, library: Path | None) -> None:
    """Print the scenario of SEED, drawn on a feeder (--system), by a recipe (--config), or from a library."""
    echo_json(_scenario(seed, config, system, library).to_dict())


def _scenario(seed: int, config: Path | None, system: str | None, library: Path | None) -> Scenario:
    if library is not None and config is None and system is None:
        opened = ScenarioLibrary(library)
        return opened.materialize(opened.record_for(seed))
    if library is not None or (config is None and system is None):
        raise InvalidSettingError("where from? Give --library, or --system and/or --config")
    tables: dict[str, Any] = read_recipe_tables(config) if config else {}
    source = str(config or "command line")
    recipe = recipe_for_seed(parse_strata({**tables, "system": system} if system else tables, source), seed, source)
    experiment = recipe.experiment()
    return randomize_scenario(seed, experiment=experiment, settings=recipe.settings(experiment))
