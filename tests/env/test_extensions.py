"""Observations, rewards and infos of one's own: alike alone and side by side, on both engines."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from env_samples import (
    LIBRARY,
    SHARED,
    SINGLE,
    assert_alike_side_by_side,
    assert_same,
    make,
    make_vec,
    random_actions,
    trajectory,
)
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from scenario_lib.env.extensions import BLOCK_NAMES, INFO_NAMES
from scenario_lib.env.figures import StepFigures
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.metrics.voltage import measure_voltages
from scenario_lib.simulation.engines import ENGINES

SHORT = {"truncate_episode": False, "total_duration_s": 7}
BLOCKS = ("voltages", "summary", "models", "time", "pv-and-load", "forecast:60")


def careful(step: StepFigures) -> tuple[Any, dict[str, Any]]:
    """Violation, and changed batches; right with and without an axis of environments."""
    changed = (step.batch_sizes != step.previous_batch_sizes).sum(axis=-1)
    parts = {"violation": -step.violation_pu().sum(axis=-1), "wear": -0.01 * changed}
    return parts["violation"] + parts["wear"], parts


def lowest_and_power(step: StepFigures) -> np.ndarray:
    return np.stack([step.voltages_pu.min(axis=-1), step.power_w.sum(axis=(-1, -2)) / 1e6], axis=-1)


EXTENDED = [
    {"reward": careful, "info": INFO_NAMES},
    {"observation": BLOCKS, "ofo_baseline": True},
    {"observation": lowest_and_power, "reward": lambda step: step.reward * 2.0, "info": ["integral_pu_s"]},
]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("settings", EXTENDED, ids=["reward", "blocks", "functions"])
@pytest.mark.parametrize("name", [SINGLE, SHARED])
def test_side_by_side_as_alone(name: str, settings: dict[str, Any], mode: str) -> None:
    given = {**SHORT, **settings}
    ours = make_vec(3, name, autoreset_mode=mode, **given)
    theirs = SyncVectorEnv(
        [lambda i=i: make(name, worker=(i, 3), **given) for i in range(3)], autoreset_mode=AutoresetMode(mode)
    )
    assert assert_alike_side_by_side(ours, theirs, 3, 16) >= 6


def test_both_engines_agree() -> None:
    given = {**SHORT, "observation": BLOCKS, "reward": careful, "info": INFO_NAMES}
    runs = []
    for engine in ENGINES:
        env = make(engine=engine, **given)
        observation, info = env.reset(seed=3)
        rows = [(observation, 0.0, info)]
        for action in ([2, 1, 0, 1, 1], [1, 1, 1, 2, 0], [0, 0, 0, 0, 0]):
            observation, reward, _, _, info = env.step(np.array(action))
            rows.append((observation, reward, info))
        env.close()
        runs.append(rows)
    for mine, theirs in zip(*runs, strict=True):
        np.testing.assert_allclose(mine[0], theirs[0], atol=1e-6)
        assert mine[1] == pytest.approx(theirs[1], abs=1e-6)
        for name in INFO_NAMES:
            np.testing.assert_allclose(mine[2][name], theirs[2][name], rtol=1e-6, atol=1e-6)


def test_figures_are_those_of_the_hour() -> None:
    seen: list[StepFigures] = []

    def watch(step: StepFigures) -> float:
        seen.append(step)
        return 7.0

    env = make(reward=watch, info=("integral_pu_s", "voltages_pu"), **SHORT)
    _, info = env.reset(seed=1, options={"scenario": 7})
    voltages = [info["voltages_pu"]]
    for action in ([1, 1, 1, 1, 1], [0, 2, 1, 1, 1]):
        _, reward, _, _, info = env.step(np.array(action))
        assert (reward, info["reward_components"]) == (7.0, {"total": 7.0})
        voltages.append(info["voltages_pu"])
    limits = seen[0].limits_pu
    assert info["integral_pu_s"] == pytest.approx(measure_voltages(np.array(voltages), *limits).integral_pu_s)
    scenario = ScenarioLibrary(LIBRARY).materialize(ScenarioLibrary(LIBRARY).record_for(7))
    last = seen[-1]
    assert (len(seen), float(last.time_s)) == (3, 2.0)
    assert last.pv_kw(60).tolist() == [pv.kw_per_phase(62.0) for pv in scenario.pv_systems]
    assert last.load_kw().tolist() == [load.kw_per_phase(2.0) for load in scenario.tvl]
    assert last.pv_kw(10_000).tolist() == [pv.kw_per_phase(3599.0) for pv in scenario.pv_systems]
    assert (last.batch_sizes != last.previous_batch_sizes).tolist() == [True, True, False, False, False]
    assert last.previous_batch_sizes.tolist() == seen[1].batch_sizes.tolist() == seen[0].batch_sizes.tolist()
    assert len(last.bus_phases) == len(voltages[0])
    assert (last.tokens_per_s > 0).all()
    assert last.deadlines_s.shape == last.itl_s.shape == (5,)


@pytest.mark.parametrize("block", ["voltages", "summary", "models", "time", "pv-and-load", "forecast:600"])
def test_a_block_has_labels_and_stays_in_its_bounds(block: str) -> None:
    env = make(observation=[block], **SHORT)
    observation, _ = env.reset(seed=0)
    labels = env.get_wrapper_attr("observation_labels")
    assert len(labels) == len(set(labels)) == len(observation) > 0
    assert env.observation_space.contains(observation)
    assert np.isfinite(env.observation_space.low).all()


def test_blocks_say_what_the_modes_say() -> None:
    by_mode, by_block = make(**SHORT), make(observation=("voltages", "summary", "models"), **SHORT)
    for seed in (0, 1):
        left, right = by_mode.reset(seed=seed)[0], by_block.reset(seed=seed)[0]
        assert left.tobytes() == right.tobytes()
    labels = [env.get_wrapper_attr("observation_labels") for env in (by_mode, by_block)]
    assert labels[0] == labels[1]


def test_gymnasiums_checker_is_content() -> None:
    env = make(observation=BLOCKS, reward=careful, info=INFO_NAMES, **SHORT)
    with np.errstate(all="ignore"):
        check_env(env.unwrapped, skip_render_check=True)


def test_a_copy_plays_on_by_itself() -> None:
    env = make(observation=BLOCKS, reward=careful, info=INFO_NAMES, truncate_episode=True)
    env.reset(seed=5)
    actions = random_actions(env, 2, 6)
    env.step(actions[0])
    twin = copy.deepcopy(env)
    for action in actions[1:]:
        mine, theirs = env.step(action), twin.step(action)
        assert mine[0].tobytes() == theirs[0].tobytes()
        assert mine[1] == theirs[1]
        assert_same(mine[4], theirs[4])


def test_a_site_may_see_the_whole_feeder() -> None:
    env = make(observation="whole-feeder", **SHORT)
    actions = random_actions(env, 1, 3)
    assert trajectory(env, actions, seed=4) == trajectory(make(**SHORT), actions, seed=4)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a block": ({"observation": ["voltage"]}, UnknownNameError, "no block 'voltage'; did you mean 'voltages'"),
    "no blocks": ({"observation": []}, InvalidSettingError, "observation is"),
    "a number": ({"observation": 7}, InvalidSettingError, "observation is 7"),
    "no forecast": ({"observation": ["forecast:x"]}, InvalidSettingError, "whole seconds from 1 to 3599"),
    "a long forecast": ({"observation": ["forecast:99999999999"]}, InvalidSettingError, "whole seconds"),
    "no zones": ({"observation": ["zone-summaries"]}, InvalidSettingError, "this feeder has no zones"),
    "no zone": ({"observation": ["zone-voltages"]}, InvalidSettingError, "no zone of its own"),
    "a table": ({"observation": lambda step: np.zeros((2, 2))}, InvalidSettingError, "expected one row of numbers"),
    "a text": ({"observation": lambda step: ["a"]}, InvalidSettingError, "expected one row of numbers"),
    "an info": ({"info": ["voltage_pu"]}, UnknownNameError, "no figure 'voltage_pu'; did you mean 'voltages_pu'"),
    "infos as a text": ({"info": "voltages_pu"}, InvalidSettingError, "info is 'voltages_pu'; expected a list"),
    "an info of nothing": ({"info": [None]}, InvalidSettingError, r"info is \[None\]"),
    "a duration": ({"total_duration_s": "x"}, InvalidSettingError, "total_duration_s is 'x'"),
    "a long duration": ({"total_duration_s": 10**9}, InvalidSettingError, "total_duration_s is 1000000000"),
    "an interval": ({"dt_ctrl": "x"}, InvalidSettingError, "dt_ctrl is 'x'; expected a number of seconds"),
    "no interval": ({"dt_ctrl": 0}, InvalidSettingError, "dt_ctrl is 0 s; expected more than 0 s"),
    "a worker": ({"worker": 3}, InvalidSettingError, "worker is 3"),
    "a worker beyond": ({"worker": (2, 2)}, InvalidSettingError, r"expected \(i, k\) with 0 <= i < k"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_when_it_is_made(case: str) -> None:
    settings, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        make(**{**SHORT, **settings})
    with pytest.raises(error, match=message):
        make_vec(2, **{**SHORT, **settings})


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (lambda step: "much", "reward: total is 'much'; expected a number"),
        (lambda step: step.voltages_pu, r"reward: total has shape \(\d+,\); expected \(\)"),
        (lambda step: (0.0, 3.0), "reward is 3.0; expected components by name"),
        (lambda step: (0.0, {"a": [1.0]}), r"reward: a has shape \(1,\)"),
    ],
)
def test_a_reward_that_is_no_number_is_refused(reward: Any, message: str) -> None:
    env = make(reward=reward, **SHORT)
    with pytest.raises(InvalidSettingError, match=message):
        env.reset(seed=0)


def test_a_function_for_one_environment_alone_is_refused_side_by_side() -> None:
    env = make_vec(2, observation=lambda step: np.array([step.voltages_pu.min()]), **SHORT)
    with pytest.raises(InvalidSettingError, match=r"gives shape \(1,\); expected \(2, 1\).*one more axis in front"):
        env.reset(seed=0)


def test_the_spec_is_still_plain() -> None:
    env = gym.make(SINGLE, library=str(LIBRARY), observation=list(BLOCKS), info=["power_w"])
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.observation_space == env.observation_space
    assert "forecast:SECONDS" in BLOCK_NAMES
