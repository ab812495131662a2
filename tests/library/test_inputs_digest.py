"""The digest of what a record's rollouts read: it moves with each of them, and with nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenario_lib.feeders.experiment import OFOTuning, TrainingJob, VoltageLimits
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.recipe import DataDigests, Recipe, inputs_digest
from scenario_lib.scenario.settings import RandomizationSettings, Range

DATA = DataDigests("c", "m", "t", {"seed": 0})
RECIPE = Recipe(load_experiment("ieee13"), RandomizationSettings(), DATA)


def of(recipe: Recipe = RECIPE, engine: str = "compiled", scenario: str = "s", has_training: bool = True) -> str:
    return inputs_digest(recipe, engine, scenario, has_training)


def with_experiment(**changes: object) -> Recipe:
    return replace(RECIPE, experiment=replace(RECIPE.experiment, **changes))


def with_feeder(**changes: object) -> Recipe:
    return with_experiment(feeder=replace(RECIPE.experiment.feeder, **changes))


READ: dict[str, Callable[[], str]] = {
    "scenario": lambda: of(scenario="other"),
    "engine": lambda: of(engine="compiled/accurate"),
    "whether it trains": lambda: of(has_training=False),
    "circuit": lambda: of(replace(RECIPE, data=replace(DATA, circuit="other"))),
    "models' data": lambda: of(replace(RECIPE, data=replace(DATA, models="other"))),
    "training trace": lambda: of(replace(RECIPE, data=replace(DATA, training_trace="other"))),
    "no data": lambda: of(replace(RECIPE, data=None)),
    "source": lambda: of(with_feeder(source_pu=1.01)),
    "capacitors": lambda: of(with_feeder(initial_capacitor_steps={"cap1": (1,)})),
    "taps": lambda: of(with_feeder(initial_taps_pu={"reg1": 1.05})),
    "excluded buses": lambda: of(with_feeder(exclude_buses=())),
    "limits": lambda: of(with_experiment(limits=VoltageLimits(0.94, 1.06))),
    "OFO": lambda: of(with_experiment(ofo=OFOTuning(w_switch=2.0))),
    "physics": lambda: of(with_experiment(datacenter=replace(RECIPE.experiment.datacenter, power_factor=0.9))),
    "models": lambda: of(with_experiment(models=RECIPE.experiment.models[::-1])),
}

NOT_READ: dict[str, Callable[[], str]] = {
    "settings": lambda: of(replace(RECIPE, settings=RandomizationSettings(pv_scale=Range(0.1, 3)))),
    "base of the overlay": lambda: of(with_experiment(overlay=TrainingJob(1, 1.0, 0.0, 1.0))),
    "base loads": lambda: of(with_experiment(loads=(), pv_systems=())),
    "where the circuit lies": lambda: of(with_feeder(circuit="/elsewhere/ieee13.dss")),
    "zones": lambda: of(with_feeder(zones={})),
    "parameters of the trace": lambda: of(replace(RECIPE, data=replace(DATA, training_trace_params={}))),
}


def test_every_input_moves_it_to_a_place_of_its_own() -> None:
    found = {name: change() for name, change in READ.items()}
    assert len({of(), *found.values()}) == len(found) + 1


@pytest.mark.parametrize("name", NOT_READ)
def test_what_no_rollout_reads_leaves_it(name: str) -> None:
    assert NOT_READ[name]() == of()


def test_a_scenario_without_training_does_not_depend_on_the_trace() -> None:
    other = replace(RECIPE, data=replace(DATA, training_trace="other"))
    assert of(other, has_training=False) == of(has_training=False)


def test_it_is_the_same_on_every_machine() -> None:
    # Computed on x86-64 with AVX-512; the digest is of text, not of floating-point results.
    assert of() == "bd9fcd6512992e9c714b289d90fc93eb47fb816163d8e1c73b56995b75f5617e"
    assert Path(RECIPE.experiment.feeder.circuit).name == "ieee13.dss"
