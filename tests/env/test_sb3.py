"""Stable-Baselines3 takes the environments; its tests run where it is installed."""

import numpy as np
import pytest
from env_samples import SHARED, SINGLE, make, make_vec

from scenario_lib.errors import InvalidSettingError, UnknownNameError

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed; pip install 'scenario-lib[train]'")

from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecMonitor

from scenario_lib.env.sb3 import BatchSizeVecEnv

SHORT = {"truncate_episode": False, "total_duration_s": 6}


def vec_env(count, seed=None, **settings):
    return BatchSizeVecEnv(make_vec(count, autoreset_mode="SameStep", **{**SHORT, **settings}), seed)


@pytest.mark.parametrize("name", [SINGLE, SHARED])
@pytest.mark.parametrize("action", ["delta", "coupled"])
@pytest.mark.parametrize("observation", ["full-voltage", "per-bus-summary", "system-summary-only"])
def test_its_checker_is_content(name, action, observation):
    check_env(make(name, action=action, observation=observation).unwrapped)


def test_the_end_of_an_episode_is_told_as_it_expects():
    env, single = vec_env(2, seed=4), make(worker=(0, 2), **SHORT)
    observations = env.reset()
    alone, info = single.reset(seed=4)
    assert observations[0].tobytes() == alone.tobytes()
    assert env.reset_infos[0] == info
    for step in range(1, 6):
        observations, rewards, dones, infos = env.step(np.full((2, 5), 2))
        alone, reward, _, over, info = single.step(np.full(5, 2))
        assert dones.tolist() == [step == 5] * 2
        assert rewards.dtype == np.float32
        assert rewards[0] == np.float32(reward)
        if not over:
            assert infos[0] == info
            assert "TimeLimit.truncated" not in infos[0]
    last = infos[0].pop("terminal_observation")
    assert infos[0].pop("TimeLimit.truncated") is True
    assert infos[0] == info
    assert last.tobytes() == alone.tobytes()
    assert observations[0].tobytes() == single.reset()[0].tobytes()
    assert env.reset_infos[0]["time_s"] == 0.0


def test_a_seed_is_a_base_seed():
    first, second, third = vec_env(3, seed=1), vec_env(3), vec_env(3, seed=2)
    second.seed(1)
    assert first.reset().tobytes() == second.reset().tobytes() != third.reset().tobytes()


def test_ppo_learns_in_lockstep_with_monitored_episodes():
    env = VecMonitor(vec_env(4, seed=0, observation="system-summary-only"))
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.set_logger(Logger(folder=None, output_formats=[]))  # its own leaves a temporary folder
    model.learn(128)
    assert model.num_timesteps == 128
    assert len(model.ep_info_buffer) == 24
    assert {episode["l"] for episode in model.ep_info_buffer} == {5}


def test_other_autoreset_modes_are_refused():
    with pytest.raises(InvalidSettingError, match="autoreset_mode is 'NextStep'; expected 'SameStep'"):
        BatchSizeVecEnv(make_vec(2))


def test_pictures_are_tiled():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install 'scenario-lib[plot]'")
    env = vec_env(2, seed=0, render_mode="rgb_array")
    env.reset()
    assert env.render("rgb_array").shape == (720, 640, 3)
    assert vec_env(2).get_images() == [None, None]


def test_nothing_can_be_set_on_one_of_them():
    env = vec_env(2)
    assert env.get_attr("render_mode", [0]) == [None]
    assert env.env_is_wrapped(VecMonitor) == [False, False]
    with pytest.raises(InvalidSettingError, match="attribute x cannot be set"):
        env.set_attr("x", 1)
    with pytest.raises(InvalidSettingError, match="method f cannot be called"):
        env.env_method("f")


def test_options_reach_the_environments_once():
    env = vec_env(2, seed=0)
    env.set_options({"scenario": 7})
    env.reset()
    assert [info["scenario"] for info in env.reset_infos] == [7, 7]
    env.set_options([{"scenario": 2007}, {}])
    env.reset()
    assert env.reset_infos[0]["scenario"] == 2007
    env.set_options({"scenaro": 7})
    with pytest.raises(UnknownNameError, match="did you mean 'scenario'"):
        env.reset()
