"""Libraries that share seeds with what a policy was trained on."""

from dataclasses import replace
from pathlib import Path

import pytest
from policy_samples import WritePolicy

from scenario_lib.errors import SharedSeedsError
from scenario_lib.learning.environments import training_library
from scenario_lib.learning.evaluation import held_out_warnings, other_data
from scenario_lib.learning.policy import TrainedPolicy, TrainingLibrary
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import DataDigests
from scenario_lib.simulation.assets import assets_digest


@pytest.fixture
def library(library_path: Path) -> ScenarioLibrary:
    return ScenarioLibrary(library_path)


def trained_on(policy_on_disk: WritePolicy, records: TrainingLibrary) -> list[TrainedPolicy]:
    return [TrainedPolicy.load(policy_on_disk("mine", records))]


def test_other_seeds_pass_in_silence(policy_on_disk: WritePolicy, library: ScenarioLibrary) -> None:
    assert held_out_warnings(library, [TrainedPolicy.load(policy_on_disk())], False) == ()


def test_the_same_library_is_refused_unless_allowed(policy_on_disk: WritePolicy, library: ScenarioLibrary) -> None:
    policies = trained_on(policy_on_disk, training_library(library))
    with pytest.raises(SharedSeedsError, match=r"policy mine was trained on 3 seeds \(7, 2007, 6007\).*--seed-start"):
        held_out_warnings(library, policies, False)
    warnings = held_out_warnings(library, policies, True)
    assert warnings == ("policy mine was trained on 3 seeds (7, 2007, 6007) of this library",)


def test_an_equal_scenario_is_shared_even_under_another_recipe(
    policy_on_disk: WritePolicy, library: ScenarioLibrary
) -> None:
    whole = training_library(library)
    one = TrainingLibrary(whole.digest, (replace(whole.records[1], recipe="another", seed=1),))
    with pytest.raises(SharedSeedsError, match="trained on seed 2007 of"):
        held_out_warnings(library, trained_on(policy_on_disk, one), False)


def test_a_seed_under_other_settings_is_a_warning(policy_on_disk: WritePolicy, library: ScenarioLibrary) -> None:
    whole = training_library(library)
    one = TrainingLibrary(whole.digest, (replace(whole.records[0], recipe="another", scenario_digest="2" * 64),))
    warnings = held_out_warnings(library, trained_on(policy_on_disk, one), False)
    assert warnings == ("policy mine was trained on seed 7 of this library, with other settings",)


def test_other_traces_than_those_a_library_was_built_on_are_noticed(
    library: ScenarioLibrary, specs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other_data(library, specs_dir, None) is None  # the library does not say
    (name, recipe), *_ = library.recipes.items()
    models = assets_digest(recipe.experiment.models, specs_dir)
    monkeypatch.setitem(library.recipes, name, replace(recipe, data=DataDigests("c", models, "t", {})))
    assert other_data(library, specs_dir, None) is None
    assert "is --specs-dir right?" in (other_data(library, None, None) or "")
