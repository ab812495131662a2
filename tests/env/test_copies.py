"""Copies in the midst of an episode play on with equal bits, and neither disturbs the other."""

import copy
import pickle

import numpy as np
import pytest
from env_samples import SHARED, SINGLE, assert_same, make, make_vec, random_actions

from scenario_lib.errors import NotCopyableError, ScenarioLibError

SHORT = {"truncate_episode": False, "total_duration_s": 9}
KINDS = [
    (SINGLE, {}),
    (SINGLE, {"ofo_baseline": True, "worker": (1, 2), "coverage": "disjoint"}),
    (SHARED, {"action": "coupled", "dt_ctrl": 2, "reward": {"switch_mode": "cooldown"}}),
]


def played(env, actions):
    """What steps give, and new episodes where one ends."""
    out = []
    for action in actions:
        observation, reward, _, truncated, info = env.step(action)
        out.append((observation.tobytes(), reward, truncated, info))
        if truncated:
            observation, info = env.reset()
            out.append((observation.tobytes(), info))
    return out


@pytest.mark.parametrize(("name", "settings"), KINDS)
def test_a_copy_plays_on_with_equal_bits(name, settings):
    env = make(name, **SHORT, **settings)
    env.reset(seed=4)
    before, after, elsewhere = (random_actions(env, seed, count) for seed, count in ((0, 3), (1, 20), (2, 20)))
    played(env, before)
    twin = copy.deepcopy(env)
    third = copy.deepcopy(twin)
    played(twin, elsewhere)
    wanted = played(env, after)
    assert played(third, after) == wanted
    assert sum(len(step) == 2 for step in wanted) >= 2


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("settings", [{}, {"prefetch": True, "threads": 2}])
def test_a_copy_in_lockstep_plays_on_with_equal_bits(mode, settings):
    env = make_vec(3, autoreset_mode=mode, **SHORT, **settings)
    env.reset(seed=4)
    actions = random_actions(env, 1, 20)
    env.step(actions[0])
    twin = copy.deepcopy(env)
    twin.step(actions[1])
    third = copy.deepcopy(env)
    for action in actions:
        got, wanted = third.step(action), env.step(action)
        for mine, other in zip(got[:4], wanted[:4], strict=True):
            assert mine.tobytes() == other.tobytes()
        assert_same(got[4], wanted[4])
    for one in (env, twin, third):
        one.close()


def test_copies_at_odd_moments():
    env = make(**SHORT, render_mode="rgb_array")
    fresh = copy.deepcopy(env)
    assert fresh.reset(seed=1)[0].tobytes() == env.reset(seed=1)[0].tobytes()
    env.action_space.seed(3)
    twin = copy.deepcopy(env)
    assert twin.action_space.sample().tolist() == env.action_space.sample().tolist()
    assert twin.unwrapped.np_random.integers(1000) == env.unwrapped.np_random.integers(1000)
    env.close()
    assert twin.step(np.ones(5, int))[4]["time_s"] == 1.0
    assert len(twin.unwrapped._history.time_s) == 2
    closed = copy.deepcopy(env)
    assert closed.reset(seed=1)[0].tobytes() == env.reset(seed=1)[0].tobytes()


def test_a_copy_shares_the_library_and_the_compiled_episodes():
    env = make(**SHORT)
    env.reset(seed=0)
    twin = copy.deepcopy(env).unwrapped
    assert twin._library is env.unwrapped._library
    assert twin._episode is not env.unwrapped._episode
    assert twin._episode.record is env.unwrapped._episode.record
    ours, theirs = env.unwrapped._backend._simulator, twin._backend._simulator
    assert theirs._tables is ours._tables
    twin.reset(options={"scenario": 7})
    assert theirs._tables is not ours._tables


@pytest.mark.parametrize("env", [make(**SHORT), make_vec(2, **SHORT), make_vec(2, prefetch=True, **SHORT)])
def test_pickling_an_episode_is_refused_in_our_words(env):
    env.reset(seed=0)
    with pytest.raises(NotCopyableError, match=r"cannot be pickled; send what makes it.*copy.deepcopy"):
        pickle.dumps(env)
    env.close()


@pytest.mark.parametrize("taken", [copy.deepcopy, pickle.dumps])
def test_the_reference_engine_says_what_to_do_instead(taken):
    env = make(engine="reference", **SHORT)
    env.reset(seed=0)
    with pytest.raises(NotCopyableError, match="reference engine cannot be copied.*engine='compiled'") as caught:
        taken(env)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ScenarioLibError)
    env.close()
