"""Terms of the reward, one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
from env_objects import Grid, config, datacenter

from scenario_lib.env.reward import RewardConfig, compute_reward
from scenario_lib.errors import InvalidSettingError
from scenario_lib.simulation.compiled.step_tables import NEVER_CHANGED


def reward(weights=None, before=16, after=32, latency=None, grid=None, **more):
    site = datacenter({"m": after}, {} if latency is None else {"m": latency})
    return compute_reward(
        grid or Grid(), site, config(), weights or RewardConfig(), {"m": before}, {"m": after}, **more
    )


def test_voltage_counts_squared_violations_of_all_bus_phases():
    _, components, stats = reward(RewardConfig(w_voltage=1000.0))
    assert components["voltage"] == pytest.approx(-1000 * (0.01**2 + 0.01**2))
    assert stats == pytest.approx({"max_under": 0.01, "max_over": 0.01, "violation_frac": 0.5})


def test_limits_of_the_reward_are_its_own():
    _, components, stats = reward(RewardConfig(v_min=0.93, v_max=1.07))
    assert components["voltage"] == 0.0
    assert stats == {"max_under": 0.0, "max_over": 0.0, "violation_frac": 0.0}


def test_throughput_with_and_without_fits():
    assert reward(RewardConfig(w_throughput=2.0))[1]["throughput"] == pytest.approx(2 * 5 / 7)
    fit = SimpleNamespace(eval=lambda batch: 10.0 + batch)
    fits = SimpleNamespace(throughput=lambda label: {"m": fit}[label])
    components = reward(RewardConfig(w_throughput=2.0), logistic_models=fits)[1]
    assert components["throughput"] == pytest.approx(2 * 42 / 138)


def test_throughput_where_the_largest_batch_is_one():
    site = datacenter({"m": 1})
    cfg = config(feasible_batch_sizes={"m": (1,)})
    _, components, _ = compute_reward(Grid(), site, cfg, RewardConfig(), {"m": 1}, {"m": 1})
    assert components["throughput"] == 0.0


@pytest.mark.parametrize(("latency", "term"), [(None, 0.0), (0.05, 0.0), (0.1, 0.0), (0.15, -5.0), (float("nan"), 0.0)])
def test_latency_counts_where_it_is_late_and_known(latency, term):
    assert reward(latency=latency)[1]["latency"] == pytest.approx(term)


@pytest.mark.parametrize(
    ("mode", "before", "after", "since", "term"),
    [
        ("magnitude", 16, 64, None, -2.0),
        ("magnitude", 64, 16, None, -2.0),
        ("magnitude", 16, 16, None, 0.0),
        ("binary", 8, 128, None, -1.0),
        ("cooldown", 8, 16, 0, -1.0),
        ("cooldown", 8, 16, 15, -np.exp(-0.5)),
        ("cooldown", 8, 16, None, -np.exp(-NEVER_CHANGED / 30)),
        ("cooldown", 16, 16, 0, 0.0),
    ],
)
def test_switching(mode, before, after, since, term):
    weights = RewardConfig(w_switch=1.0, switch_mode=mode)
    more = {} if since is None else {"steps_since_change": {"m": since}}
    assert reward(weights, before, after, **more)[1]["switch"] == pytest.approx(term)


def test_safe_counts_bus_phases_in_range():
    assert reward(RewardConfig(w_safe=4.0))[1]["safe"] == pytest.approx(2.0)


def test_components_sum_to_the_total_and_the_clip_leaves_them():
    total, components, _ = reward(latency=0.3)
    assert total == pytest.approx(sum(components.values()))
    clipped, same, _ = reward(RewardConfig(reward_clip=1.5), latency=0.3)
    assert clipped == -1.5
    assert same == components


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"switch_mode": "none"}, "switch_mode is 'none'; expected one of magnitude, binary, cooldown"),
        ({"w_voltage": -1.0}, "w_voltage"),
        ({"w_safe": float("nan")}, "w_safe"),
        ({"reward_clip": -0.1}, "reward_clip"),
        ({"switch_cooldown_tau": 0.0}, "switch_cooldown_tau"),
        ({"v_min": 1.1}, "v_max is 1.05; expected more than v_min"),
    ],
)
def test_bad_weights_are_refused(setting, message):
    with pytest.raises(InvalidSettingError, match=message):
        RewardConfig(**setting)
