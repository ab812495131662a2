"""Training settings: read, changed by name, and refused."""

import json
from dataclasses import asdict

import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.env.reward import RewardConfig
from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.learning.settings import (
    PPOSettings,
    TrainingSettings,
    parse_settings,
    read_settings_tables,
    with_settings,
)


def test_settings_survive_json_and_defaults_fill_what_is_left_out() -> None:
    settings = parse_settings({"steps": 7, "ppo": {"gamma": 0.9, "hidden_sizes": [8, 4]}}, "test")
    assert (settings.steps, settings.ppo.gamma, settings.ppo.hidden_sizes) == (7, 0.9, (8, 4))
    assert settings.reward == RewardConfig()
    assert parse_settings(json.loads(json.dumps(settings.to_dict())), "test") == settings


def test_a_change_goes_to_the_table_that_has_the_name() -> None:
    tables = with_settings(
        {"ppo": {"gamma": 0.9}}, {"w_switch": 0.5, "clip_range": 0.1, "action": "coupled", "envs": 2}
    )
    settings = parse_settings(tables, "test")
    assert (settings.reward.w_switch, settings.ppo.clip_range, settings.ppo.gamma) == (0.5, 0.1, 0.9)
    assert (settings.environment.action, settings.envs) == ("coupled", 2)


def test_every_setting_has_one_name_only() -> None:
    tables = asdict(TrainingSettings())
    names = [name for table in ("environment", "reward", "ppo") for name in tables[table]]
    names += [name for name in tables if name not in ("environment", "reward", "ppo")]
    assert len(set(names)) == len(names)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSettingError, match=r"setting 'gama' is not known; did you mean 'gamma'"):
        with_settings({}, {"gama": 0.9})
    with pytest.raises(DataFileError, match=r"a\.toml: ppo\.gama"):
        parse_settings({"ppo": {"gama": 0.9}}, "a.toml")
    with pytest.raises(DataFileError, match=r"a\.toml: reward\.w_volt"):
        parse_settings({"reward": {"w_volt": 1.0}}, "a.toml")


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"steps": 0}, "steps is 0; expected at least 1"),
        ({"seed": 2**32}, "seed is 4294967296; expected between 0 and"),
        ({"ppo": {"gamma": 1.5}}, "gamma is 1.5; expected between 0 and 1"),
        ({"ppo": {"final_learning_rate": 1.0}}, "final_learning_rate is 1.0; expected between 0 and 0.0003"),
        ({"ppo": {"activation": "gelu"}}, "activation is 'gelu'; expected one of tanh, relu"),
        ({"ppo": {"hidden_sizes": []}}, "at least one layer"),
        ({"environment": {"action": "free"}}, "action is 'free'; expected one of delta, coupled"),
        ({"environment": {"coverage": "all"}}, "coverage is 'all'"),
        ({"environment": {"shared": True, "site": "east"}}, "a shared policy sets all sites"),
        ({"reward": {"w_switch": -1}}, "w_switch is -1.0; expected at least 0"),
        ({"envs": 3, "ppo": {"n_steps": 5, "batch_size": 4}}, "batch_size is 4; expected a divisor .* which is 15"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(tables: dict[str, object], text: str) -> None:
    with pytest.raises(DataFileError, match=text):
        parse_settings(tables, "test")


def test_the_shipped_settings_can_be_used() -> None:
    settings = parse_settings(read_settings_tables(data_dir() / "training" / "ieee13.toml"), "ieee13.toml")
    assert settings.ppo != PPOSettings()
