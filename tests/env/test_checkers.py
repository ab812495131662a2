"""Gymnasium's own checks, environments in worker processes, and several environments in one process."""

import multiprocessing
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from env_samples import DATA, LIBRARY, SHARED, SINGLE, assert_same, make, random_actions, trajectory
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import scenario_lib  # noqa: F401 - registers the ids
from scenario_lib.errors import EngineInUseError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.views import LibraryView, RecordFilter

SHORT = {"truncate_episode": False, "total_duration_s": 8}


@pytest.mark.filterwarnings("ignore:.*render.*", "ignore:.*infinity.*", "ignore:.*not within the.*")
@pytest.mark.parametrize("name", [SINGLE, SHARED])
@pytest.mark.parametrize("action", ["delta", "coupled"])
@pytest.mark.parametrize("observation", ["full-voltage", "per-bus-summary", "system-summary-only"])
def test_the_checker_is_content(name, action, observation):
    check_env(make(name, action=action, observation=observation).unwrapped, skip_render_check=True)


@pytest.mark.filterwarnings("ignore:.*infinity.*")
def test_the_checker_is_content_with_pictures():
    check_env(make(render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_worker_processes_get_what_this_process_gets(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no start method {method!r}")
    library = LibraryView(ScenarioLibrary(LIBRARY), RecordFilter(seeds=(7, 2007)))
    makers = [
        partial(gym.make, SINGLE, library=library, specs_dir=DATA / "specs", worker=(i, 2), **SHORT) for i in range(2)
    ]
    there = AsyncVectorEnv(makers, context=method, autoreset_mode=AutoresetMode.SAME_STEP)
    here = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    try:
        assert there.reset(seed=[3, 3])[0].tobytes() == here.reset(seed=[3, 3])[0].tobytes()
        for actions in random_actions(here, 0, 16):
            got, expected = there.step(actions), here.step(actions)
            assert got[0].tobytes() == expected[0].tobytes()
            assert got[1].tobytes() == expected[1].tobytes()
            assert_same(got[4]["scenario"], expected[4]["scenario"])
    finally:
        there.close()
        here.close()


def test_interleaved_environments_are_each_as_alone():
    kinds = [{}, {"observation": "per-bus-summary"}, {"action": "coupled", "dt_ctrl": 2}]
    alone = []
    for i, kind in enumerate(kinds):
        env = make(**SHORT, **kind)
        alone.append(trajectory(env, random_actions(env, i, 20), seed=i))
    envs = [make(**SHORT, **kind) for kind in kinds]
    actions = [random_actions(env, i, 20) for i, env in enumerate(envs)]
    together = []
    for i, env in enumerate(envs):
        observation, info = env.reset(seed=i)
        together.append([(observation.tobytes(), info)])
    for step in range(7):
        for env, taken, out, whole in zip(envs, actions, together, alone, strict=True):
            if len(out) < len(whole):
                observation, *rest = env.step(taken[step])
                out.append((observation.tobytes(), *rest))
    assert together == alone


def test_the_reference_engine_refuses_a_second_environment():
    first = make(engine="reference", **SHORT)
    second = make(engine="reference", **SHORT)
    first.reset(seed=0)
    second.reset(seed=0)
    second.step(np.ones(5, int))
    with pytest.raises(EngineInUseError, match="OpenDSS has one circuit per process"):
        first.step(np.ones(5, int))
    first.close()
    second.close()


@pytest.mark.parametrize("settings", [{}, {"worker": (1, 3), "coverage": "disjoint"}])
def test_a_seed_decides_everything_whatever_was_played_before(settings):
    fresh, used = make(**SHORT, **settings), make(**SHORT, **settings)
    used.reset(seed=77, options={"scenario": 2007})
    for action in random_actions(used, 9, 3):
        used.step(action)
    actions = random_actions(fresh, 1, 20)
    for seed in (0, 5):
        assert trajectory(fresh, actions, seed=seed) == trajectory(used, actions, seed=seed)
        assert trajectory(fresh, actions) == trajectory(used, actions)


def test_whole_windows_repeat():
    runs = []
    for _ in range(2):
        env = make(ofo_baseline=True)
        runs.append(trajectory(env, random_actions(env, 2, 1600), seed=3, options={"scenario": 7}))
    assert len(runs[0]) == 1591
    assert runs[0] == runs[1]


def test_workers_draw_different_sequences_also_from_a_pickled_library():
    import pickle

    library = ScenarioLibrary(LIBRARY)

    def sequence(given, worker, seed):
        env = make(library=given, worker=worker, **SHORT)
        first = env.reset(seed=seed)[1]["scenario"]
        return [first] + [env.reset()[1]["scenario"] for _ in range(11)]

    drawn = [sequence(library, (i, 3), 0) for i in range(3)]
    assert len({tuple(one) for one in drawn}) == 3
    assert drawn == [sequence(pickle.loads(pickle.dumps(library)), (i, 3), 0) for i in range(3)]
    assert sequence(library, (1, 3), 0) != sequence(library, (0, 3), 1)
