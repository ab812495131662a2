"""Stepping from outside: the same bytes as rollouts, alone, together, with threads, and from a checkpoint."""

import numpy as np
import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.catalogue import load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.engine import CompiledScenario, compile_scenario, run_compiled
from scenario_lib.simulation.compiled.lockstep import Lockstep, baseline_checkpoint

SECONDS = 120
SEEDS = (7, 1007, 2007)


@pytest.fixture(scope="module", params=["ieee13", "ieee34"])
def compiled(request: pytest.FixtureRequest, eventful: RandomizationSettings) -> list[CompiledScenario]:
    experiment = load_experiment(request.param)
    assets = load_assets(experiment)
    scenarios = [randomize_scenario(seed, experiment=experiment, settings=eventful) for seed in SEEDS]
    return [compile_scenario(scenario, experiment, assets, SECONDS) for scenario in scenarios]


def batches(stepper: Lockstep, n_seconds: int = SECONDS) -> np.ndarray:
    """Arbitrary feasible batch sizes, shape (n_seconds, N, M)."""
    rng = np.random.default_rng(1)
    n_models, n_levels = stepper.batch_sizes.shape
    levels = rng.integers(0, n_levels, (n_seconds, len(stepper.seconds), n_models))
    return stepper.batch_sizes[np.arange(n_models), levels]


def played(stepper: Lockstep, actions: np.ndarray) -> list[np.ndarray]:
    """Everything that was observed, stacked over time."""
    steps = [tuple(array.copy() for array in stepper.step(action)) for action in actions]
    return [np.stack(arrays) for arrays in zip(*steps, strict=True)]


def assert_same(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    for ours, theirs in zip(left, right, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")


def test_the_initial_batches_give_the_baseline(compiled: list[CompiledScenario]) -> None:
    for one in compiled:
        baseline = run_compiled(one, "none")
        voltages, power, itl, iterations = played(Lockstep([one]), baseline.batch_sizes[:, None])
        assert np.array_equal(voltages[:, 0], baseline.voltages_pu)
        assert np.array_equal(power[:, 0], baseline.power_w)
        assert np.array_equal(itl[:, 0], baseline.itl_s, equal_nan=True)
        assert iterations.min() >= 2


@pytest.mark.parametrize("threads", [1, 2])
def test_together_as_alone(compiled: list[CompiledScenario], threads: int) -> None:
    together = Lockstep(compiled, threads=threads)
    actions = batches(together)
    observed = played(together, actions)
    for i, one in enumerate(compiled):
        assert_same([array[:, i : i + 1] for array in observed], played(Lockstep([one]), actions[:, i : i + 1]))


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(compiled: list[CompiledScenario]) -> None:
    stepper = Lockstep(compiled)
    actions = batches(stepper)
    played(stepper, actions[:50])
    checkpoint = stepper.checkpoint(1)
    rest = played(stepper, actions[50:])
    alone = Lockstep([compiled[1]])
    alone.restore(0, checkpoint)
    assert_same([array[:, 1:2] for array in rest], played(alone, actions[50:, 1:2]))


def test_an_episode_starts_where_the_baseline_stands(compiled: list[CompiledScenario]) -> None:
    one = compiled[0]
    baseline = run_compiled(one, "none")
    stepper = Lockstep([one], window_s=(80, SECONDS))
    stepper.restore(0, baseline_checkpoint(one, 80))
    voltages, power, *_ = played(stepper, baseline.batch_sizes[80:, None])
    assert np.array_equal(voltages[:, 0], baseline.voltages_pu[80:])
    assert np.array_equal(power[:, 0], baseline.power_w[80:])
    assert np.array_equal(stepper.active_replicas(0), baseline.active_replicas[-1])


def test_scenarios_may_be_at_different_seconds(compiled: list[CompiledScenario]) -> None:
    stepper = Lockstep(compiled)
    actions = batches(stepper)
    first = played(stepper, actions[:10])
    fresh = Lockstep([compiled[2]]).checkpoint(0)
    stepper.restore(2, fresh)
    again = played(stepper, np.concatenate([actions[10:20, :2], actions[:10, 2:]], axis=1))
    assert stepper.seconds.tolist() == [20, 20, 10]
    assert_same([array[:, 2] for array in again], [array[:, 2] for array in first])


def test_what_cannot_be_stepped_is_refused(compiled: list[CompiledScenario]) -> None:
    stepper = Lockstep([compiled[0]], window_s=(80, SECONDS))
    action = batches(stepper, 1)[0]
    with pytest.raises(InvalidSettingError, match="restore a checkpoint"):
        stepper.step(action)
    stepper.restore(0, baseline_checkpoint(compiled[0], 80))
    with pytest.raises(InvalidSettingError, match="batch sizes \\[3\\] of model 0"):
        stepper.step(np.where(np.arange(action.shape[1]) == 0, 3, action))
    with pytest.raises(InvalidSettingError, match="expected \\(1, "):
        stepper.step(action[0])
    with pytest.raises(InvalidSettingError, match="window_s"):
        Lockstep([compiled[0]], window_s=(0, SECONDS + 1))
    with pytest.raises(InvalidSettingError, match="at least one"):
        Lockstep([])
