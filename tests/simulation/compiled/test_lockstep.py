"""Stepping from outside: the same bytes as rollouts, alone, together, with threads, and from a checkpoint."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.batch import Lockstep
from scenario_lib.simulation.compiled.episode import baseline_checkpoint, window_of
from scenario_lib.simulation.compiled.rollout import CompiledScenario, compile_scenario, run_compiled

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
        voltages, power, itl, converged = played(Lockstep([window_of(one)]), baseline.batch_sizes[:, None])
        assert np.array_equal(voltages[:, 0], baseline.voltages_pu)
        assert np.array_equal(power[:, 0], baseline.power_w)
        assert np.array_equal(itl[:, 0], baseline.itl_s, equal_nan=True)
        assert converged.all()


@pytest.mark.parametrize("threads", [1, 2])
def test_together_as_alone(compiled: list[CompiledScenario], threads: int) -> None:
    together = Lockstep(map(window_of, compiled), threads=threads)
    actions = batches(together)
    observed = played(together, actions)
    for i, one in enumerate(compiled):
        assert_same(
            [array[:, i : i + 1] for array in observed], played(Lockstep([window_of(one)]), actions[:, i : i + 1])
        )


def test_threads_start_with_the_first_step(compiled: list[CompiledScenario]) -> None:
    """A process that is to fork may make a stepper before."""
    before = set(threading.enumerate())
    stepper = Lockstep(map(window_of, compiled), threads=3)
    assert set(threading.enumerate()) <= before
    stepper.step(batches(stepper, 1)[0])
    assert len(set(threading.enumerate()) - before) == 2


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(compiled: list[CompiledScenario]) -> None:
    stepper = Lockstep(map(window_of, compiled))
    actions = batches(stepper)
    played(stepper, actions[:50])
    checkpoint = stepper.checkpoint(1)
    rest = played(stepper, actions[50:])
    alone = Lockstep([window_of(compiled[1])])
    alone.restore(0, checkpoint)
    assert_same([array[:, 1:2] for array in rest], played(alone, actions[50:, 1:2]))


def test_an_episode_starts_where_the_baseline_stands(compiled: list[CompiledScenario]) -> None:
    one = compiled[0]
    baseline = run_compiled(one, "none")
    stepper = Lockstep([window_of(one, 80)])
    voltages, power, *_ = played(stepper, baseline.batch_sizes[80:, None])
    assert np.array_equal(voltages[:, 0], baseline.voltages_pu[80:])
    assert np.array_equal(power[:, 0], baseline.power_w[80:])
    assert np.array_equal(stepper.active_replicas(0), baseline.active_replicas[-1])


def test_scenarios_may_be_at_different_seconds(compiled: list[CompiledScenario]) -> None:
    stepper = Lockstep(map(window_of, compiled))
    actions = batches(stepper)
    first = played(stepper, actions[:10])
    fresh = Lockstep([window_of(compiled[2])]).checkpoint(0)
    stepper.restore(2, fresh)
    again = played(stepper, np.concatenate([actions[10:20, :2], actions[:10, 2:]], axis=1))
    assert stepper.seconds.tolist() == [20, 20, 10]
    assert_same([array[:, 2] for array in again], [array[:, 2] for array in first])


def test_a_window_goes_back_to_a_checkpoint_of_its_rollout(compiled: list[CompiledScenario]) -> None:
    stepper = Lockstep([window_of(compiled[0], 80), window_of(compiled[1], 40)])
    actions = batches(stepper, 30)
    first = played(stepper, actions)
    for place, second in enumerate((80, 40)):
        stepper.restore(place, baseline_checkpoint(compiled[place], second))
    assert_same(played(stepper, actions), first)


def test_a_scenario_that_fails_stays_where_it_is(compiled: list[CompiledScenario]) -> None:
    """And the others go on as if they were alone."""
    huge = compiled[1].feeding._replace(element_kw=compiled[1].feeding.element_kw.copy())
    huge.element_kw[20:] = 1e9
    stepper = Lockstep(map(window_of, [compiled[0], replace(compiled[1], feeding=huge)]), threads=2)
    actions = batches(stepper, 40)
    voltages, _, _, converged = played(stepper, actions)
    assert converged[:, 0].all()
    assert converged[:, 1].tolist() == [True] * 20 + [False] * 20
    assert stepper.seconds.tolist() == [40, 20]
    assert np.array_equal(voltages[20:, 1], np.repeat(voltages[19:20, 1], 20, axis=0))
    alone, *_ = played(Lockstep([window_of(compiled[0])]), actions[:, :1])
    assert np.array_equal(voltages[:, :1], alone)


def test_what_cannot_be_stepped_is_refused(compiled: list[CompiledScenario]) -> None:
    stepper = Lockstep([window_of(compiled[0], SECONDS - 2)])
    action = batches(stepper, 1)[0]
    at_first = np.arange(action.shape[1]) == 0
    for wrong in (3, -1, 10**6):
        with pytest.raises(InvalidSettingError, match=f"batch sizes \\[{wrong}\\] of model 0"):
            stepper.step(np.where(at_first, wrong, action))
    with pytest.raises(InvalidSettingError, match="expected \\(1, "):
        stepper.step(action[0])
    with pytest.raises(InvalidSettingError, match="of second 80; scenario 0 has seconds 118 to 119"):
        stepper.restore(0, baseline_checkpoint(compiled[0], 80))
    for _ in range(2):
        stepper.step(action)
    with pytest.raises(InvalidSettingError, match="scenario 0 is at its end, second 120; restore a checkpoint first"):
        stepper.step(action)
    with pytest.raises(InvalidSettingError, match="expected 0 to 119 s"):
        window_of(compiled[0], SECONDS)
    with pytest.raises(InvalidSettingError, match="at least one"):
        Lockstep([])
