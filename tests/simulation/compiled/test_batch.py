"""Stepping from outside: the same bytes as rollouts, alone, together, with threads, and from a checkpoint.

And the threads: who takes which episodes, and how they wait for work.
"""

import gc
import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.execution.process import ThreadTeam
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.batch import BatchSimulator, shares_of
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


def batches(simulator: BatchSimulator, n_seconds: int = SECONDS) -> np.ndarray:
    """Arbitrary feasible batch sizes, shape (n_seconds, N, M)."""
    rng = np.random.default_rng(1)
    n_models, n_levels = simulator.batch_sizes.shape
    levels = rng.integers(0, n_levels, (n_seconds, len(simulator.seconds), n_models))
    return simulator.batch_sizes[np.arange(n_models), levels]


def played(simulator: BatchSimulator, actions: np.ndarray) -> list[np.ndarray]:
    """Everything that was observed, stacked over time."""
    steps = []
    for action in actions:
        outcome = simulator.step(action)
        shown = outcome.voltages_pu, outcome.power_w, outcome.itl_s, outcome.converged
        steps.append([array.copy() for array in shown])
    return [np.stack(arrays) for arrays in zip(*steps, strict=True)]


def assert_same(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    for ours, theirs in zip(left, right, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")


def test_the_initial_batches_give_the_baseline(compiled: list[CompiledScenario]) -> None:
    for one in compiled:
        baseline = run_compiled(one, "none")
        voltages, power, itl, converged = played(BatchSimulator.of([window_of(one)]), baseline.batch_sizes[:, None])
        assert np.array_equal(voltages[:, 0], baseline.voltages_pu)
        assert np.array_equal(power[:, 0], baseline.power_w)
        assert np.array_equal(itl[:, 0], baseline.itl_s, equal_nan=True)
        assert converged.all()


@pytest.mark.parametrize("threads", [1, 2])
def test_together_as_alone(compiled: list[CompiledScenario], threads: int) -> None:
    together = BatchSimulator.of(map(window_of, compiled), threads=threads)
    actions = batches(together)
    observed = played(together, actions)
    for i, one in enumerate(compiled):
        assert_same(
            [array[:, i : i + 1] for array in observed],
            played(BatchSimulator.of([window_of(one)]), actions[:, i : i + 1]),
        )


def test_threads_start_with_the_first_step(compiled: list[CompiledScenario]) -> None:
    """A process that is to fork may make a simulator before."""
    before = set(threading.enumerate())
    simulator = BatchSimulator.of(map(window_of, compiled), threads=3)
    assert set(threading.enumerate()) <= before
    simulator.step(batches(simulator, 1)[0])
    assert len(set(threading.enumerate()) - before) == 2


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(compiled: list[CompiledScenario]) -> None:
    simulator = BatchSimulator.of(map(window_of, compiled))
    actions = batches(simulator)
    played(simulator, actions[:50])
    checkpoint = simulator.checkpoint(1)
    rest = played(simulator, actions[50:])
    alone = BatchSimulator.of([window_of(compiled[1])])
    alone.restore(0, checkpoint)
    assert_same([array[:, 1:2] for array in rest], played(alone, actions[50:, 1:2]))


def test_an_episode_starts_where_the_baseline_stands(compiled: list[CompiledScenario]) -> None:
    one = compiled[0]
    baseline = run_compiled(one, "none")
    simulator = BatchSimulator.of([window_of(one, 80)])
    voltages, power, *_ = played(simulator, baseline.batch_sizes[80:, None])
    assert np.array_equal(voltages[:, 0], baseline.voltages_pu[80:])
    assert np.array_equal(power[:, 0], baseline.power_w[80:])
    assert np.array_equal(simulator.active_replicas(0), baseline.active_replicas[-1])


def test_scenarios_may_be_at_different_seconds(compiled: list[CompiledScenario]) -> None:
    simulator = BatchSimulator.of(map(window_of, compiled))
    actions = batches(simulator)
    first = played(simulator, actions[:10])
    fresh = BatchSimulator.of([window_of(compiled[2])]).checkpoint(0)
    simulator.restore(2, fresh)
    again = played(simulator, np.concatenate([actions[10:20, :2], actions[:10, 2:]], axis=1))
    assert simulator.seconds.tolist() == [20, 20, 10]
    assert_same([array[:, 2] for array in again], [array[:, 2] for array in first])


def test_a_window_goes_back_to_a_checkpoint_of_its_rollout(compiled: list[CompiledScenario]) -> None:
    simulator = BatchSimulator.of([window_of(compiled[0], 80), window_of(compiled[1], 40)])
    actions = batches(simulator, 30)
    first = played(simulator, actions)
    for slot, second in enumerate((80, 40)):
        simulator.restore(slot, baseline_checkpoint(compiled[slot], second))
    assert_same(played(simulator, actions), first)


def test_a_scenario_that_fails_stays_where_it_is(compiled: list[CompiledScenario]) -> None:
    """And the others go on as if they were alone."""
    huge = compiled[1].load_arrays._replace(element_kw=compiled[1].load_arrays.element_kw.copy())
    huge.element_kw[20:] = 1e9
    simulator = BatchSimulator.of(map(window_of, [compiled[0], replace(compiled[1], load_arrays=huge)]), threads=2)
    actions = batches(simulator, 40)
    voltages, _, _, converged = played(simulator, actions)
    assert converged[:, 0].all()
    assert converged[:, 1].tolist() == [True] * 20 + [False] * 20
    assert simulator.seconds.tolist() == [40, 20]
    assert np.array_equal(voltages[20:, 1], np.repeat(voltages[19:20, 1], 20, axis=0))
    alone, *_ = played(BatchSimulator.of([window_of(compiled[0])]), actions[:, :1])
    assert np.array_equal(voltages[:, :1], alone)


def test_what_cannot_be_stepped_is_refused(compiled: list[CompiledScenario]) -> None:
    simulator = BatchSimulator.of([window_of(compiled[0], SECONDS - 2)])
    action = batches(simulator, 1)[0]
    at_first = np.arange(action.shape[1]) == 0
    for wrong in (3, -1, 10**6):
        with pytest.raises(InvalidSettingError, match=f"batch sizes \\[{wrong}\\] of model 0"):
            simulator.step(np.where(at_first, wrong, action))
    with pytest.raises(InvalidSettingError, match="expected \\(1, "):
        simulator.step(action[0])
    with pytest.raises(InvalidSettingError, match="of second 80; scenario 0 has seconds 118 to 119"):
        simulator.restore(0, baseline_checkpoint(compiled[0], 80))
    for _ in range(2):
        simulator.step(action)
    with pytest.raises(InvalidSettingError, match="scenario 0 is at its end, second 120; restore a checkpoint first"):
        simulator.step(action)
    with pytest.raises(InvalidSettingError, match="expected 0 to 119 s"):
        window_of(compiled[0], SECONDS)
    with pytest.raises(InvalidSettingError, match="at least one"):
        BatchSimulator.of([])


@pytest.mark.parametrize(
    ("episodes", "threads", "edges"),
    [(1, 1, [0, 1]), (64, 1, [0, 64]), (64, 2, [0, 34, 64]), (4, 4, [0, 1, 2, 3, 4]), (10, 3, [0, 4, 7, 10])],
)
def test_shares(episodes: int, threads: int, edges: list[int]) -> None:
    assert shares_of(episodes, threads) == edges


def test_nobody_is_left_without_work() -> None:
    for episodes in range(1, 70):
        for threads in range(1, min(episodes, 9) + 1):
            edges = shares_of(episodes, threads)
            assert edges[0] == 0
            assert edges[-1] == episodes
            assert all(left < right for left, right in pairwise(edges))


def test_every_job_is_done_once_in_a_thread_of_its_own() -> None:
    team, seen = ThreadTeam(2), []
    meeting = threading.Barrier(3, timeout=10)

    def job(name: str) -> None:
        meeting.wait()
        seen.append((name, threading.get_ident()))

    for _ in range(5):
        seen.clear()
        team.run([lambda name=name: job(name) for name in "abc"])
        assert sorted(name for name, _ in seen) == ["a", "b", "c"]
        assert len({thread for _, thread in seen}) == 3
        assert dict(seen)["a"] == threading.get_ident()


def test_what_a_job_raises_is_raised_and_work_goes_on() -> None:
    team, done = ThreadTeam(1), []

    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        team.run([lambda: done.append(1), fail])
    with pytest.raises(ValueError, match="wrong"):
        team.run([fail, lambda: done.append(2)])
    team.run([lambda: done.append(3), lambda: done.append(4)])
    assert sorted(done) == [1, 2, 3, 4]


def test_alone_no_thread_is_started() -> None:
    before = set(threading.enumerate())
    team, done = ThreadTeam(0), []
    team.run([lambda: done.append(1)])
    ThreadTeam(3)
    assert done == [1]
    assert set(threading.enumerate()) <= before


def test_threads_end_with_their_team() -> None:
    before = set(threading.enumerate())
    team = ThreadTeam(2)
    team.run([lambda: None] * 3)
    started = set(threading.enumerate()) - before
    assert len(started) == 2
    del team
    gc.collect()
    for thread in started:
        thread.join(timeout=10)
        assert not thread.is_alive()
