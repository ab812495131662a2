"""The vector environment is N single ones, bit for bit, under all of Gymnasium's autoreset modes."""

import traceback
from functools import partial

import numpy as np
import pytest
from env_samples import LIBRARY, SHARED, SINGLE, assert_alike_side_by_side, make, make_vec, random_actions
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, ReplayError, UnknownNameError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.simulation.compiled.episode import EPISODES
from scenario_lib.simulation.compiled.step_kernels import play

MODES = ("NextStep", "SameStep")
SHORT = {"truncate_episode": False, "total_duration_s": 7}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (SINGLE, {"ofo_baseline": True, "reward": {"w_safe": 0.5, "switch_mode": "cooldown", "reward_clip": 0.4}}),
        (SHARED, {"action": "coupled", "observation": "per-bus-summary", "dt_ctrl": 2}),
        (SINGLE, {"action": "absolute"}),
        (SINGLE, {"observation": "system-summary-only", "coverage": "disjoint", "total_duration_s": 5}),
    ],
)
def test_it_is_n_single_environments(mode, name, settings):
    given = {**SHORT, **settings}
    ours = make_vec(4, name, autoreset_mode=mode, **given)
    theirs = SyncVectorEnv(
        [lambda i=i: make(name, worker=(i, 4), **given) for i in range(4)], autoreset_mode=AutoresetMode(mode)
    )
    assert assert_alike_side_by_side(ours, theirs, 4, 25) >= 8
    ours.close()
    theirs.close()


def test_episodes_of_different_windows_end_on_their_own():
    env = make_vec(3, autoreset_mode="Disabled")
    _, infos = env.reset(seed=0, options={"scenario": [7, 2007, 6007]})
    assert infos["scenario"].tolist() == [7, 2007, 6007]
    assert infos["time_s"].tolist() == [1735.0, 406.0, 1504.0]
    actions, lengths = np.ones((3, 5), int), {}
    for step in range(1, 3000):
        _, _, terminated, truncated, _ = env.step(actions)
        assert not terminated.any()
        for i in np.flatnonzero(truncated):
            lengths[int(i)] = step
        if truncated.any():
            env.reset(options={"reset_mask": truncated, "scenario": [7, 2007, 6007]})
        if len(lengths) == 3:
            break
    assert lengths == {2: 1256, 0: 1590, 1: 2407}


def test_disabled_mode_refuses_to_go_on_and_resets_what_the_mask_says():
    env = make_vec(2, autoreset_mode="Disabled", **SHORT)
    env.reset(seed=1)
    for _ in range(6):
        _, _, _, truncated, _ = env.step(np.ones((2, 5), int))
    assert truncated.tolist() == [True, True]
    with pytest.raises(EnvironmentUseError, match=r"end of the episode of environments \[0, 1\].*reset_mask"):
        env.step(np.ones((2, 5), int))
    before = env.reset(options={"reset_mask": np.array([True, False]), "scenario": 7})[0]
    observations, infos = env.reset(options={"reset_mask": np.array([True, False]), "scenario": 7})
    assert observations.tobytes() == before.tobytes()
    assert infos["scenario"].tolist() == [7, 0]
    assert infos["_scenario"].tolist() == [True, False]
    with pytest.raises(EnvironmentUseError, match=r"environments \[1\]"):
        env.step(np.ones((2, 5), int))
    env.reset(options={"reset_mask": np.array([False, True]), "scenario": 7})
    observations, *_ = env.step(np.ones((2, 5), int))
    assert observations[0].tobytes() == observations[1].tobytes()


def test_same_step_keeps_what_the_ended_episode_showed():
    env = make_vec(2, autoreset_mode="SameStep", **SHORT)
    single = make(worker=(0, 2), **SHORT)
    env.reset(seed=5)
    single.reset(seed=5)
    for _ in range(6):
        observations, rewards, _, truncated, infos = env.step(np.full((2, 5), 2))
        alone, reward, _, over, info = single.step(np.full(5, 2))
        assert rewards[0] == reward
    assert over
    assert truncated.tolist() == [True, True]
    assert infos["final_obs"][0].tobytes() == alone.tobytes()
    assert observations[0].tobytes() != alone.tobytes()
    assert infos["final_info"]["time_s"].tolist() == [6.0, 6.0]
    assert infos["final_info"]["reward_components"]["switch"][0] == info["reward_components"]["switch"]
    assert infos["time_s"].tolist() == [0.0, 0.0]
    assert infos["reward_components"]["switch"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_returned_arrays_are_nobody_elses(mode):
    def arrays(infos):
        for value in infos.values():
            if isinstance(value, dict):
                yield from arrays(value)
            elif value.dtype != object:
                yield value

    env = make_vec(3, autoreset_mode=mode, **SHORT)
    observations, infos = env.reset(seed=2)
    given = [observations, *arrays(infos)]
    for actions in random_actions(env, 0, 14):
        observations, rewards, terminated, truncated, infos = env.step(actions)
        given += [observations, rewards, terminated, truncated, *arrays(infos)]
    copies = [array.copy() for array in given]
    for array in given:
        array[...] = 0
    kept = make_vec(3, autoreset_mode=mode, **SHORT)
    observations, infos = kept.reset(seed=2)
    replayed = [observations, *arrays(infos)]
    for actions in random_actions(kept, 0, 14):
        observations, rewards, terminated, truncated, infos = kept.step(actions)
        replayed += [observations, rewards, terminated, truncated, *arrays(infos)]
    for array, copy in zip(replayed, copies, strict=True):
        assert array.tobytes() == copy.tobytes()
    assert not any(np.shares_memory(a, b) for i, a in enumerate(given[:40]) for b in given[i + 1 : 40])


def test_threads_change_no_bit():
    runs = []
    for threads in (1, 2):
        env = make_vec(5, threads=threads, autoreset_mode="SameStep", **SHORT)
        out = [env.reset(seed=8)[0]]
        for actions in random_actions(env, 1, 12):
            observations, rewards, *_ = env.step(actions)
            out += [observations, rewards]
        runs.append([array.tobytes() for array in out])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("coverage", ["random", "disjoint"])
def test_what_is_compiled_ahead_is_what_would_be_played_anyway(coverage):
    runs = []
    for prefetch in (False, True):
        EPISODES.clear()
        env = make_vec(3, prefetch=prefetch, coverage=coverage, autoreset_mode="SameStep", **SHORT)
        out = [env.reset(seed=8)[0]]
        for step, actions in enumerate(random_actions(env, 1, 20)):
            if step == 9:  # drops what was drawn ahead
                out.append(env.reset(seed=5)[0])
            if step == 15:  # keeps it
                out.append(env.reset(options={"scenario": [7, None, None]})[0])
            observations, rewards, _, _, infos = env.step(actions)
            out += [observations, rewards, infos["scenario"]]
        env.close()
        runs.append([array.tobytes() for array in out])
    assert runs[0] == runs[1]


def test_what_goes_wrong_ahead_is_met_where_it_would_be_played(monkeypatch):
    env = make_vec(1, prefetch=True, autoreset_mode="SameStep", **SHORT)
    env.reset(seed=0, options={"scenario": 7})

    def broken(self, record):
        raise ReplayError("not the one that was screened")

    EPISODES.clear()
    monkeypatch.setattr(ScenarioLibrary, "materialize", broken)
    with pytest.raises(ReplayError, match="not the one that was screened"):
        for _ in range(12):
            env.step(np.ones((1, 5), int))
    env.close()


def test_environments_differ_and_one_base_seed_repeats_them():
    env = make_vec(6)
    sequences = []
    for seed in (3, 3, 4):
        drawn = [env.reset(seed=seed)[1]["scenario"].tolist()]
        drawn += [env.reset()[1]["scenario"].tolist() for _ in range(7)]
        sequences.append(np.array(drawn).T.tolist())
    assert sequences[0] == sequences[1] != sequences[2]
    assert len({tuple(sequence) for sequence in sequences[0]}) == 6


def test_disjoint_coverage_sees_each_scenario_once_before_any_twice():
    env = make_vec(3, coverage="disjoint")
    rounds = [env.reset(seed=9)[1]["scenario"]] + [env.reset()[1]["scenario"] for _ in range(3)]
    library = ScenarioLibrary(LIBRARY)
    for drawn in rounds:
        assert sorted(drawn.tolist()) == sorted(record.seed for record in library)


def test_two_vector_environments_are_workers_too():
    whole = make_vec(4).reset(seed=6)[0]
    halves = [make_vec(2, worker=(i, 2)).reset(seed=6)[0] for i in range(2)]
    assert np.concatenate(halves).tobytes() == whole.tobytes()


def test_seeds_of_each():
    env, other = make_vec(3, **SHORT), make_vec(3, **SHORT)
    drawn = env.reset(seed=[5, 6, 7])[1]["scenario"].tolist()
    expected = [other.reset(seed=seed)[1]["scenario"][i] for i, seed in enumerate((5, 6, 7))]
    assert drawn == expected
    with pytest.raises(InvalidSettingError, match="seed has 2 values; expected one, or 3"):
        env.reset(seed=[1, 2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0; expected at least 1"),
        ({"threads": 0}, "threads is 0; expected at least 1"),
        ({"autoreset_mode": "Later"}, "autoreset_mode is 'Later'; expected one of 'NextStep', 'SameStep', 'Disabled'"),
        ({"engine": "reference"}, "engine is 'reference'; expected the compiled engine"),
        ({"engine": "slow"}, "engine is 'slow'; expected one of compiled, reference"),
        ({"render_mode": "human"}, "render_mode is 'human'; expected None or 'rgb_array'"),
        ({"action": "joint"}, "action_mode is 'joint'"),
        ({"worker": (2, 2)}, "worker is"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InvalidSettingError, match=message):
        make_vec(**{"num_envs": 2, **settings})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reset_mask": [True, False]}, "numpy array of 2 booleans"),
        ({"reset_mask": np.zeros(2, bool)}, "at least one of them True"),
        ({"reset_mask": np.ones(3, bool)}, "numpy array of 2 booleans"),
        ({"scenario": [7]}, "one .or None. for each of 2"),
        ({"scenario": "7"}, "expected a seed"),
    ],
)
def test_bad_reset_options_are_refused(options, message):
    env = make_vec(2)
    env.reset(seed=0)
    with pytest.raises(InvalidSettingError, match=message):
        env.reset(options=options)


def test_out_of_turn():
    env = make_vec(2)
    with pytest.raises(EnvironmentUseError, match="before reset"):
        env.step(np.ones((2, 5), int))
    with pytest.raises(EnvironmentUseError, match="never reset"):
        env.reset(options={"reset_mask": np.array([True, False])})
    env.reset(seed=0)
    env.close()
    env.close()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.ones((2, 4), int), r"action has shape \(2, 4\); expected \(2, 5\)"),
        (np.ones((2, 5)), "expected whole numbers from 0 to 2"),
        (np.full((2, 5), 3), "expected whole numbers from 0 to 2"),
        (np.full((2, 5), 2**64 - 1, np.uint64), "expected whole numbers from 0 to 2"),
    ],
)
def test_bad_actions_change_nothing(actions, message):
    env, other = make_vec(2), make_vec(2)
    env.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(InvalidSettingError, match=message):
        env.step(actions)
    good = np.ones((2, 5), np.int8)
    assert env.step(good)[0].tobytes() == other.step(good)[0].tobytes()


def test_unknown_scenario_is_named():
    with pytest.raises(UnknownNameError, match="no record of seed 99"):
        make_vec(2).reset(options={"scenario": 99})


def test_replacing_one_episode_by_a_longer_one_leaves_the_others_alone():
    env, alone = make_vec(2, autoreset_mode="Disabled"), make()
    env.reset(options={"scenario": 6007})
    alone.reset(options={"scenario": 6007})
    actions = np.random.default_rng(0).integers(0, 3, (60, 2, 5))
    for step, action in enumerate(actions):
        if step == 20:
            env.reset(options={"reset_mask": np.array([False, True]), "scenario": 2007})
        got, expected = env.step(action), alone.step(action[0])
        assert got[0][0].tobytes() == expected[0].tobytes()
        assert got[1][0] == expected[1]
    other = make()
    other.reset(options={"scenario": 2007})
    for action in actions[20:]:
        observation, *_ = other.step(action[1])
    assert got[0][1].tobytes() == observation.tobytes()


@pytest.mark.parametrize(
    ("make_one", "most"), [(make, 3), (partial(make_vec, 2), 4), (partial(make_vec, 2, threads=2), 4)]
)
def test_a_step_reaches_machine_code_in_few_calls(monkeypatch, make_one, most):
    """So that who reads what a step does opens few files."""
    stacks = []

    def watched(*arguments):
        stacks.append([frame.f_code.co_name for frame, _ in traceback.walk_stack(None)])
        play(*arguments)

    monkeypatch.setattr("scenario_lib.simulation.compiled.batch.play", watched)
    watched.__name__ = play.__name__
    env = make_one().unwrapped
    env.reset(seed=0)
    stacks.clear()
    env.step(np.ones(env.action_space.shape, int))
    ours = next(stack for stack in stacks if "step" in stack)
    assert ours.index("step") <= most
