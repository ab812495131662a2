"""Decisions that two engines take differently: how near to a rounding boundary, and how far voltages reach."""

from dataclasses import replace

import numpy as np
import pytest

from scenario_lib.feeders.experiment import VoltageLimits
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.agreement import (
    Agreement,
    at_a_limit,
    compare_ofo,
    compare_rollouts,
    continuous_batches,
    rounding_distance,
)
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.power_flow import OPENDSS
from scenario_lib.simulation.compiled.rollout import (
    CompiledScenario,
    compile_scenario,
    empty_record,
    ofo_controllers,
    run_compiled,
    run_ofo,
    start_of,
)
from scenario_lib.simulation.rollout import Rollout

SEED, SECOND, MODEL = 59007, 3473, 3
"""A scenario in which one batch size lies 7e-7 from its rounding boundary, so that OpenDSS decides the other way."""


@pytest.fixture(scope="module")
def compiled() -> CompiledScenario:
    experiment = load_experiment("ieee123")
    scenario = randomize_scenario(SEED, experiment=experiment, settings=RandomizationSettings())
    return compile_scenario(scenario, experiment, load_assets(experiment), SECOND + 10)


@pytest.fixture(scope="module")
def ours(compiled: CompiledScenario) -> Rollout:
    return run_compiled(compiled, "ofo")


def on_an_engine_that_is_off(compiled: CompiledScenario, ours: Rollout, off_pu: float) -> Rollout:
    """What OFO does where it reads voltages that are lower."""
    controllers = ofo_controllers(compiled)
    tuning = controllers.settings._replace(v_min=0.95 + off_pu, v_max=1.05 + off_pu)
    record = empty_record(compiled, len(ours.batch_sizes))
    run_ofo(*start_of(compiled), OPENDSS, controllers._replace(settings=tuning), record)
    sizes = compiled.tables.batch_sizes[np.arange(len(ours.model_labels)), record.levels]
    return replace(ours, batch_sizes=sizes, voltages_pu=ours.voltages_pu - off_pu)


def compare(compiled: CompiledScenario, ours: Rollout, theirs: Rollout) -> Agreement:
    return compare_ofo(compiled.scenario, compiled.experiment, compiled.assets, ours, theirs)


@pytest.mark.parametrize(
    ("x", "size", "way"),
    [
        (np.log2(192), 128, 0.0),
        (np.log2(192), 256, 0.0),
        (np.log2(200), 128, np.log2(200 / 192)),
        (np.log2(200), 256, 0.0),
        (np.log2(200), 64, np.log2(200 / 96)),
        (6.0, 256, np.log2(192 / 64)),
        (9.5, 256, 9.5 - np.log2(384)),
        (-3.0, 8, 0.0),
        (7.0, 100, np.inf),
    ],
)
def test_way_to_a_batch_size(x: float, size: int, way: float) -> None:
    feasible = np.array([8, 16, 32, 64, 128, 256, 512, 512, 512])
    assert rounding_distance(x, size, feasible) == pytest.approx(way, abs=1e-14)


def test_a_decision_on_a_boundary_is_explained(compiled: CompiledScenario, ours: Rollout) -> None:
    agreement = compare(compiled, ours, on_an_engine_that_is_off(compiled, ours, 1e-10))
    assert agreement.voltage_pu == pytest.approx(1e-10, rel=1e-3)
    assert agreement.first_apart == SECOND
    (flip,) = agreement.flips
    assert (flip.model, flip.compiled, flip.reference) == (compiled.tables.model_labels[MODEL], 256, 128)
    assert flip.distance == pytest.approx(7.25e-7, rel=0.05)
    assert flip.distance < flip.reach < 1e-5
    assert agreement.explained
    assert "256 (compiled) or 128 (reference) from second 3473: 7.2e-07 from the rounding boundary" in str(flip)


def test_a_voltage_moves_x_as_far_as_is_said(compiled: CompiledScenario, ours: Rollout) -> None:
    """And never further: measured with a step ten times as large, while decisions stay the same."""
    x, per_pu = continuous_batches(compiled, 1000)
    controllers = ofo_controllers(compiled)
    tuning = controllers.settings._replace(v_min=0.95 - 1e-9, v_max=1.05 - 1e-9)
    controllers = controllers._replace(settings=tuning)
    run_ofo(*start_of(compiled), OPENDSS, controllers, empty_record(compiled, 1000))
    moved = np.abs(controllers.state.x - x)
    assert moved.max() > 1e-8
    assert np.all(moved <= per_pu * 1e-9)


def test_a_decision_far_from_a_boundary_is_not(compiled: CompiledScenario, ours: Rollout) -> None:
    sizes = ours.batch_sizes.copy()
    feasible = compiled.tables.batch_sizes[0].tolist()
    sizes[1000:, 0] = feasible[feasible.index(int(sizes[1000, 0])) - 1]
    agreement = compare(compiled, ours, replace(ours, batch_sizes=sizes, voltages_pu=ours.voltages_pu + 1e-9))
    (flip,) = agreement.flips
    assert (flip.second, flip.model) == (1000, compiled.tables.model_labels[0])
    assert flip.distance > 100 * flip.reach
    assert not agreement.explained


def test_voltages_that_are_off_explain_nothing(compiled: CompiledScenario, ours: Rollout) -> None:
    agreement = compare(compiled, ours, on_an_engine_that_is_off(compiled, ours, 2e-7))
    assert agreement.flips
    assert not agreement.explained


def test_equal_decisions_need_no_explanation(ours: Rollout) -> None:
    agreement = compare_rollouts(ours, replace(ours, voltages_pu=ours.voltages_pu + 3e-9))
    assert agreement == Agreement(pytest.approx(3e-9, rel=1e-3), 0, None)
    assert agreement.explained


def test_voltages_at_a_limit() -> None:
    voltages_pu = np.array([[1.0, 1.0], [0.95 + 4e-8, 1.0], [1.0, 1.05 - 4e-8], [0.95 - 6e-8, 1.05 + 6e-8]])
    assert at_a_limit(voltages_pu, VoltageLimits()).tolist() == [False, True, True, False]
