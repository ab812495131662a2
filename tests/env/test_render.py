"""Pictures of episodes."""

import numpy as np
import pytest
from env_samples import make, make_vec

from scenario_lib.env.episode import EpisodeHistory, render_episode
from scenario_lib.env.reward import RewardConfig

pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install 'scenario-lib[plot]'")


def test_a_history_keeps_the_envelope():
    history, sizes = EpisodeHistory(), {"m": 8}
    history.add(3.0, np.array([0.9, 1.0, 1.1]), sizes)
    sizes["m"] = 16
    history.add(4.0, np.array([0.95, 1.02]), sizes)
    assert history.time_s == [3.0, 4.0]
    assert history.lowest_pu == [0.9, 0.95]
    assert history.highest_pu == [1.1, 1.02]
    assert history.batch_sizes == [{"m": 8}, {"m": 16}]


def test_the_picture_changes_with_the_episode():
    env = make(render_mode="rgb_array", truncate_episode=False, total_duration_s=6)
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (360, 640, 3)
    assert first.dtype == np.uint8
    env.step(np.zeros(5, int))
    assert not np.array_equal(env.render(), first)
    assert env.unwrapped._history.time_s == [0.0, 1.0]


def test_pictures_of_many_are_those_of_each():
    settings = {"render_mode": "rgb_array", "truncate_episode": False, "total_duration_s": 4}
    many = make_vec(2, autoreset_mode="SameStep", **settings)
    assert many.render_mode == "rgb_array"
    alone = [make(worker=(i, 2), **settings) for i in range(2)]
    many.reset(seed=3)
    for env in alone:
        env.reset(seed=3)
    for _ in range(2):
        many.step(np.full((2, 5), 2))
        for env in alone:
            env.step(np.full(5, 2))
    pictures = many.render()
    assert isinstance(pictures, tuple)
    for picture, env in zip(pictures, alone, strict=True):
        assert np.array_equal(picture, env.render())
    many.step(np.full((2, 5), 2))  # the last step, so that the next episodes are shown
    for picture, env in zip(many.render(), alone, strict=True):
        env.reset()
        assert np.array_equal(picture, env.render())


def test_nothing_is_drawn_without_a_render_mode():
    env = make(truncate_episode=False, total_duration_s=6).unwrapped
    env.reset(seed=0)
    env.step(np.ones(5, int))
    assert env.render() is None
    assert env._history.time_s == []
    many = make_vec(2, truncate_episode=False, total_duration_s=6)
    many.reset(seed=0)
    assert many.render() is None


def test_an_empty_history_can_be_drawn():
    picture = render_episode(EpisodeHistory(), RewardConfig())
    assert picture.shape == (360, 640, 3)
