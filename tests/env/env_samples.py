"""Environments on the small test library, and comparisons of what they give."""

from pathlib import Path

import gymnasium as gym
import numpy as np

import scenario_lib  # noqa: F401 - registers the ids

DATA = Path(__file__).parents[1] / "data"
LIBRARY = DATA / "openg2g_library_ieee13"
SINGLE, SHARED = "scenario_lib/BatchSize-v0", "scenario_lib/SharedBatchSize-v0"


def make(name=SINGLE, **settings):
    return gym.make(name, **{"library": LIBRARY, "specs_dir": DATA / "specs", **settings})


def make_vec(num_envs, name=SINGLE, mode="vector_entry_point", **settings):
    given = {"library": LIBRARY, "specs_dir": DATA / "specs", **settings}
    return gym.make_vec(name, num_envs=num_envs, vectorization_mode=mode, **given)


def random_actions(env, seed, count):
    space = env.action_space
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def trajectory(env, actions, **reset):
    """Everything an environment gives, as bytes and plain values."""
    observation, info = env.reset(**reset)
    out = [(observation.tobytes(), info)]
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        out.append((observation.tobytes(), reward, terminated, truncated, info))
        if truncated:
            break
    return out


def assert_alike_side_by_side(ours, theirs, n_envs, n_steps):
    """The same observations, rewards, ends and infos, to the bit; returns how many episodes ended."""
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.action_space == theirs.action_space
    observations, infos = ours.reset(seed=11)
    wanted, wanted_infos = theirs.reset(seed=[11] * n_envs)
    assert observations.tobytes() == wanted.tobytes()
    assert_same(infos, wanted_infos)
    ended = 0
    for actions in random_actions(theirs, 3, n_steps):
        got, expected = ours.step(actions), theirs.step(actions)
        for mine, other in zip(got[:4], expected[:4], strict=True):
            assert mine.dtype == other.dtype
            assert mine.tobytes() == other.tobytes()
        assert_same(got[4], expected[4])
        ended += int(got[3].sum())
    return ended


def assert_same(left, right, where=""):
    """Equal infos: the same names, arrays of equal type and bits, to any depth."""
    if isinstance(left, dict):
        assert sorted(left) == sorted(right), where
        for name in left:
            assert_same(left[name], right[name], f"{where}/{name}")
    elif isinstance(left, np.ndarray) and left.dtype == object:
        for a, b in zip(left, right, strict=True):
            assert_same(a, b, where)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, where
        assert left.tobytes() == right.tobytes(), f"{where}: {left} {right}"
    else:
        assert left == right, where
