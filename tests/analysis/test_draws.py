"""What was drawn for every candidate, and how far two groups are apart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from scenario_lib.analysis.draws import PARAMETERS, draws_of_table, gap_by_chance, largest_gap
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings

SAMPLED = RandomizationSettings(
    randomize_pv_profile=True, randomize_tvl_profile=True, pv_t_shift_max_s=100, ramp_up_prob=0.5
)


@pytest.fixture(scope="module")
def library(built_library: Path) -> ScenarioLibrary:
    return ScenarioLibrary(built_library)


def test_draws_are_those_of_the_scenarios(library: ScenarioLibrary) -> None:
    draws = draws_of_table(library.candidates, library.recipes)
    assert draws.accepted.tolist() == [True, False, True, False]
    assert (draws.changed, draws.total) == (0, 4)
    assert draws.values["PV scale"].tolist() == library.candidates.column("pv_scale").to_pylist()
    scenario = library.materialize(library[1])
    assert draws.values["training GPUs"][2] == scenario.training_run.n_gpus
    assert draws.values["ramps"].tolist() == [5, 5, 5, 5]
    assert {"PV scale", "training start (s)", "first ramp starts (s)"} <= draws.varying().keys()
    assert not {"ramps", "PV time warp", "PV clouds"} & draws.varying().keys()


def test_candidates_that_draw_otherwise_now_are_counted_not_shown(library: ScenarioLibrary) -> None:
    table = library.candidates
    scales = pa.array([0.123, *table.column("pv_scale").to_pylist()[1:]])
    table = table.set_column(table.schema.get_field_index("pv_scale"), "pv_scale", scales)
    draws = draws_of_table(table, library.recipes)
    assert (draws.changed, len(draws.accepted)) == (1, 3)


def test_candidates_that_were_never_drawn_are_left_out(library: ScenarioLibrary) -> None:
    table = library.candidates
    scales = pc.if_else(pc.equal(table.column("seed"), 7), None, table.column("pv_scale"))
    table = table.set_column(table.schema.get_field_index("pv_scale"), "pv_scale", scales)
    assert draws_of_table(table, library.recipes).total == 3


@pytest.mark.parametrize("settings", [SAMPLED, replace(SAMPLED, randomize_ramps=False), RandomizationSettings()])
@pytest.mark.parametrize("system", ["ieee13", "ieee34"])
def test_every_parameter_can_be_read_from_every_scenario(system: str, settings: RandomizationSettings) -> None:
    scenario = randomize_scenario(7, experiment=load_experiment(system), settings=settings)
    numbers = {name: read(scenario) for name, read in PARAMETERS.items()}
    assert np.isfinite(numbers["PV clouds"]) == settings.randomize_pv_profile
    assert np.isfinite(numbers["training start (s)"]) == (system == "ieee13")
    assert numbers["replicas at the end, of the first"] > 0
    assert 32 <= numbers["initial batch, geometric mean"] <= 128


def test_the_gap_is_that_of_the_distribution_functions() -> None:
    assert largest_gap(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1.0
    assert largest_gap(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0])) == 0.25
    same = np.array([1.0, 1.0, 2.0])
    assert largest_gap(same, same) == 0.0


def test_one_gap_in_twenty_is_beyond_chance() -> None:
    rng = np.random.default_rng(0)
    beyond = [largest_gap(rng.random(80), rng.random(120)) > gap_by_chance(80, 120) for _ in range(2000)]
    assert 0.03 < np.mean(beyond) < 0.06
