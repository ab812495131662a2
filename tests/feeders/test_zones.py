"""Zones are listed in one order everywhere, so that an observation's slots never depend on where a feeder came from."""

import json
from dataclasses import replace

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.recipe import Recipe, recipe_from_dict
from scenario_lib.scenario.settings import RandomizationSettings


def test_a_recipe_gives_zones_in_the_order_of_the_experiment() -> None:
    experiment = load_experiment("ieee123")
    feeder = replace(experiment.feeder, zones={"south": ("1",), "east": ("2", "3"), "north": ("4",)})
    assert list(feeder.zones) == ["east", "north", "south"]
    recipe = Recipe(replace(experiment, feeder=feeder), RandomizationSettings())
    stored = json.loads(json.dumps(recipe.to_dict(), sort_keys=True))
    assert list(recipe_from_dict(stored, "metadata.json").experiment.feeder.zones) == list(feeder.zones)
