"""A power flow that diverges inside an episode: truncated with the last observation, or raised; on both engines."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from env_samples import assert_same
from gymnasium.vector import SyncVectorEnv

from scenario_lib.env.batch_size_env import BatchSizeEnv
from scenario_lib.env.episode import EnvSettings, choose_agent_site
from scenario_lib.env.factories import observation_config
from scenario_lib.env.simulator import make_sim_fn
from scenario_lib.env.vector_env import BatchSizeVectorEnv, VectorSettings
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, PowerFlowError
from scenario_lib.feeders.sites import PowerSeries
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import ENGINES
from scenario_lib.simulation.rollout import run_reference

DURATION_S = 12


@pytest.fixture
def jump(village):
    """The village with a load that jumps beyond what its feeder can carry, at second 6."""
    series = PowerSeries((0.0, 5.0, 5.5), (1.0, 1.0, 5000.0))
    return replace(village, overlay=None, loads=(replace(village.loads[0], series=series),))


def parts(experiment, engine):
    assets = load_assets(experiment)
    bus_phases = run_reference(base_scenario(experiment), experiment, assets, n_steps=1).bus_phases
    config = observation_config(experiment, bus_phases, "full-voltage", experiment.sites)
    return make_sim_fn(experiment, assets, DURATION_S, engine), config


def env_on(experiment, engine, **settings):
    return BatchSizeEnv(*parts(experiment, engine), total_duration_s=DURATION_S, **settings)


def names_of(info):
    """All names in an info, to any depth."""
    return {name: names_of(value) if isinstance(value, dict) else None for name, value in info.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_it_ends_the_episode_with_the_last_valid_observation(jump, engine):
    env = env_on(jump, engine)
    observation, first = env.reset()
    hold = np.ones(env.action_space.shape, int)
    for _ in range(5):
        observation, _, _, truncated, info = env.step(hold)
        before = info
        assert not truncated
        assert info["power_flow"] == first["power_flow"] == ""
    last, reward, terminated, truncated, info = env.step(np.zeros(env.action_space.shape, int))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert last.tobytes() == observation.tobytes()
    assert info["power_flow"] == "the power flow did not converge at second 6 (during the step)"
    assert info["batch_sizes"] == first["batch_sizes"]
    assert (info["time_s"], set(info["reward_components"].values())) == (6.0, {0.0})
    assert info["voltage_stats"] == before["voltage_stats"]
    assert names_of(info) == names_of(first)
    with pytest.raises(EnvironmentUseError, match="after the end of the episode"):
        env.step(hold)
    again, _ = env.reset()
    assert np.isfinite(again).all()
    env.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_it_is_raised_if_asked_for(jump, engine):
    env = env_on(jump, engine, on_divergence="raise")
    env.reset()
    hold = np.ones(env.action_space.shape, int)
    for _ in range(5):
        env.step(hold)
    with pytest.raises(PowerFlowError) as caught:
        env.step(hold)
    assert (caught.value.step, caught.value.during) == (6, "step")
    with pytest.raises(EnvironmentUseError, match="after the end"):
        env.step(hold)
    env.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_at_reset_it_is_an_error(village, engine):
    huge = replace(village.sites[0])
    object.__setattr__(huge, "base_kw_per_phase", 1.7e308)  # which a site refuses to be told
    env = BatchSizeEnv(
        make_sim_fn(replace(village, sites=(huge,)), load_assets(village), DURATION_S, engine),
        parts(village, engine)[1],
    )
    with pytest.raises(PowerFlowError, match="at second 0"):
        env.reset()
    with pytest.raises(EnvironmentUseError, match="before reset"):
        env.step(np.ones(env.action_space.shape, int))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_in_lockstep_as_alone(jump, mode):
    source, config = parts(jump, "compiled")
    settings = EnvSettings(total_duration_s=DURATION_S)
    ours = BatchSizeVectorEnv(
        source, config, partial(choose_agent_site, "_default"), settings, VectorSettings(3, autoreset_mode=mode)
    )
    theirs = SyncVectorEnv([lambda: env_on(jump, "compiled")] * 3, autoreset_mode=ours.metadata["autoreset_mode"])
    assert ours.reset()[0].tobytes() == theirs.reset()[0].tobytes()
    hold = np.ones(ours.action_space.shape, int)
    for _ in range(15):
        got, expected = ours.step(hold), theirs.step(hold)
        for mine, other in zip(got[:4], expected[:4], strict=True):
            assert mine.tobytes() == other.tobytes()
        assert_same(got[4], expected[4])


def test_in_lockstep_it_is_raised_if_asked_for(jump):
    source, config = parts(jump, "compiled")
    settings = EnvSettings(total_duration_s=DURATION_S, on_divergence="raise")
    env = BatchSizeVectorEnv(source, config, partial(choose_agent_site, "_default"), settings, VectorSettings(2))
    env.reset()
    hold = np.ones(env.action_space.shape, int)
    for _ in range(5):
        env.step(hold)
    with pytest.raises(PowerFlowError, match="at second 6"):
        env.step(hold)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_divergence": "ignore"}, "on_divergence is 'ignore'; expected one of truncate, raise"),
        ({"dt_ctrl": 0}, "dt_ctrl is 0 s; expected more than 0 s"),
        ({"render_mode": "human"}, "render_mode is 'human'; expected None or 'rgb_array'"),
        ({"action_mode": "joint"}, "action_mode is 'joint'"),
        ({"ofo_baseline": True}, "ofo_baseline needs a scenario library"),
        ({"worker": (3, 2)}, "worker is"),
    ],
)
def test_bad_settings_are_refused(village, settings, message):
    with pytest.raises(InvalidSettingError, match=message):
        BatchSizeEnv(*parts(village, "compiled"), **settings)
