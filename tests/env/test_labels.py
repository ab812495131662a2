"""Names of slots, and their table in the documentation of the environments."""

from pathlib import Path

import pytest
from env_objects import V_INDEX, config
from env_samples import SHARED, make

from scenario_lib.env.action import ACTION_MODES
from scenario_lib.env.batch_size_env import BatchSizeEnv
from scenario_lib.env.extensions import BLOCK_NAMES, INFO_NAMES
from scenario_lib.env.factories import OBSERVATION_MODES
from scenario_lib.env.observation import (
    MODEL_SLOTS,
    SUMMARY_SLOTS,
    compute_bus_phase_groups,
    observation_labels,
)
from scenario_lib.errors import EnvironmentUseError
from scenario_lib.simulation.compiled.step_tables import TERMS


def test_full_voltages():
    names = observation_labels(config(), V_INDEX)
    assert names[:5] == (
        "voltage at bus a, phase A (pu)",
        "voltage at bus a, phase B (pu)",
        "voltage at bus B, phase A (pu)",
        "voltage at bus c, phase C (pu)",
        "worst undervoltage (pu)",
    )
    assert names[-1] == "change of batch, m"
    assert len(names) == config().obs_dim == len(set(names))


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"n_bus_phases": 1, "zone_buses": ("b",)}, "voltage at bus B, phase A (pu)"),
        ({"n_bus_phases": 6, "bus_phase_groups": compute_bus_phase_groups(V_INDEX)}, "lowest voltage at bus a (pu)"),
        ({"n_bus_phases": 0, "zone_summary": {"east": ("a",)}}, "worst undervoltage (pu), zone east"),
        ({"n_bus_phases": 0}, "worst undervoltage (pu)"),
    ],
)
def test_other_modes(changes, first):
    cfg = config(**changes)
    names = observation_labels(cfg, V_INDEX)
    assert names[0] == first
    assert len(names) == cfg.obs_dim


def test_environments_know_theirs_once_reset():
    env = make(SHARED).unwrapped
    with pytest.raises(EnvironmentUseError, match="call reset first"):
        _ = env.observation_labels
    observation, _ = env.reset(seed=0)
    assert len(env.observation_labels) == len(observation)


def test_the_documentation_has_the_slots_in_their_order():
    rows = [line.strip() for line in BatchSizeEnv.__doc__.splitlines()]
    wanted = [f"| then 1 | {slot.meaning} | {slot.unit} | {slot.values} |" for slot in SUMMARY_SLOTS]
    wanted += [f"| per model 1 | {slot.meaning} | {slot.unit} | {slot.values} |" for slot in MODEL_SLOTS]
    first = rows.index(wanted[0])
    assert rows[first : first + len(wanted)] == wanted


GUIDE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")


def test_the_guide_has_the_slots_in_their_order():
    wanted = [f"| summary | {slot.meaning} | {slot.unit} | {slot.values} |" for slot in SUMMARY_SLOTS]
    wanted += [f"| model | {slot.meaning} | {slot.unit} | {slot.values} |" for slot in MODEL_SLOTS]
    rows = GUIDE.splitlines()
    first = rows.index(wanted[0])
    assert rows[first : first + len(wanted)] == wanted


@pytest.mark.parametrize(
    "names", [BLOCK_NAMES, INFO_NAMES, ACTION_MODES, OBSERVATION_MODES, TERMS], ids=lambda names: names[0]
)
def test_the_guide_names_all_there_is(names):
    assert [name for name in names if f"`{name}`" not in GUIDE] == []
