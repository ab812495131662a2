"""Recipes: by value, independent of where files lie, and back again."""

import json
from dataclasses import replace

import pytest

from scenario_lib._files import canonical_json
from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.library.recipe import Recipe, recipe_from_dict
from scenario_lib.scenario.settings import RandomizationSettings


def stored(recipe: Recipe) -> dict:
    return json.loads(canonical_json(recipe.to_dict()))


@pytest.mark.parametrize("settings", [RandomizationSettings(), RandomizationSettings(ramp_up_prob=0.25)])
def test_a_recipe_survives_being_stored(recipe: Recipe, settings: RandomizationSettings) -> None:
    original = replace(recipe, settings=settings)
    read = recipe_from_dict(stored(original), "metadata.json")
    assert read.settings == settings
    assert read.data == original.data
    assert read.experiment.overlay == original.experiment.overlay
    assert read.id == original.id


def test_a_users_own_feeder_survives_being_stored(village) -> None:
    original = Recipe(village, RandomizationSettings())
    read = recipe_from_dict(stored(original), "metadata.json")
    feeder = replace(read.experiment.feeder, circuit=village.feeder.circuit)
    assert replace(read.experiment, feeder=feeder) == village, "the profile from a CSV and the power factors too"
    assert read.id == original.id


def test_the_identifier_does_not_depend_on_where_files_lie(recipe: Recipe) -> None:
    feeder = replace(recipe.experiment.feeder, circuit="/another/place/ieee13.dss")
    moved = replace(recipe, experiment=replace(recipe.experiment, feeder=feeder))
    assert moved.id == recipe.id
    assert len(recipe.id) == 12
    assert int(recipe.id, 16) >= 0


def test_any_change_of_meaning_changes_the_identifier(recipe: Recipe) -> None:
    others = [
        replace(recipe, settings=RandomizationSettings(ramp_up_prob=0.1)),
        replace(recipe, experiment=replace(recipe.experiment, overlay=None)),
        replace(recipe, data=None),
        replace(recipe, data=replace(recipe.data, models="others")),
    ]
    assert len({recipe.id, *(other.id for other in others)}) == 5


def test_what_is_not_a_recipe_is_refused_with_the_place(recipe: Recipe) -> None:
    tables = stored(recipe)
    with pytest.raises(DataFileError, match=r"metadata.json: experiment: .*feeder"):
        recipe_from_dict({**tables, "experiment": {}}, "metadata.json")
    with pytest.raises(DataFileError, match=r"metadata.json: data: .*circuit"):
        recipe_from_dict({**tables, "data": {"circuit": 5}}, "metadata.json")
    with pytest.raises(InvalidSettingError, match="unknown randomisation settings: surprise"):
        recipe_from_dict({**tables, "randomize_kwargs": {"surprise": 1}}, "metadata.json")
