"""From actions to batch sizes, and which actions are refused."""

import gymnasium as gym
import numpy as np
import pytest

from scenario_lib.env.action import ActionReader, absolute_action, action_space, decode_action
from scenario_lib.errors import InvalidSettingError

LABELS = ("small", "large")
FEASIBLE = {"small": (8, 16, 32, 64), "large": (16, 8, 32)}


def decode(action, mode="delta", previous=None, **shift):
    return decode_action(action, mode, LABELS, FEASIBLE, previous or {"small": 16, "large": 16}, **shift)


@pytest.mark.parametrize(
    ("action", "small", "large"),
    [([0, 2], 8, 32), ([1, 1], 16, 16), ([2, 0], 32, 8)],
)
def test_delta_moves_each_model_by_one(action, small, large):
    assert decode(np.array(action)) == {"small": small, "large": large}


@pytest.mark.parametrize(
    ("action", "small", "large"),
    [(0, 8, 8), (1, 8, 8), (2, 16, 16), (3, 32, 32), (4, 64, 32)],
)
def test_coupled_moves_all_alike_and_stops_at_the_ends(action, small, large):
    assert decode(action, "coupled") == {"small": small, "large": large}


@pytest.mark.parametrize(("action", "small", "large"), [([0, 0], 8, 8), ([3, 1], 64, 16), ([2, 2], 32, 32)])
@pytest.mark.parametrize("previous", [None, {"small": 8, "large": 32}])
def test_absolute_says_where_to_go_wherever_one_is(action, small, large, previous):
    wanted = {"small": small, "large": large}
    assert decode(np.array(action), "absolute", previous) == wanted
    assert absolute_action(wanted, FEASIBLE).tolist() == action


def test_a_size_that_is_not_feasible_has_no_absolute_action():
    with pytest.raises(InvalidSettingError, match=r"12 of large; expected one of \[8, 16, 32\]"):
        absolute_action({"small": 8, "large": 12}, FEASIBLE)


def test_coupled_shift_can_be_less():
    assert decode(2, "coupled", coupled_max_shift=1) == {"small": 32, "large": 32}
    assert decode(4, "coupled", coupled_max_shift=None) == {"small": 64, "large": 32}
    with pytest.raises(InvalidSettingError, match="whole numbers from 0 to 2"):
        decode(3, "coupled", coupled_max_shift=1)


def test_a_batch_that_is_not_feasible_or_unknown_counts_as_the_middle_one():
    assert decode([1, 1], previous={"small": 17, "large": 128}) == {"small": 32, "large": 16}
    assert decode([0, 2], previous={"large": 8}) == {"small": 16, "large": 16}


@pytest.mark.parametrize(
    "action",
    [[2, 0], (2, 0), np.array([2, 0], np.int8), np.array([2, 0], np.uint64), [np.int32(2), np.int64(0)]],
)
def test_integers_of_any_width_are_taken(action):
    assert decode(action) == {"small": 32, "large": 8}


@pytest.mark.parametrize("action", [3, np.int64(3), np.array(3), np.array(3, np.uint8)])
def test_whatever_trainers_return_for_one_number_is_taken(action):
    assert decode(action, "coupled") == {"small": 32, "large": 32}


@pytest.mark.parametrize(
    ("action", "mode", "message"),
    [
        ([1.0, 1.0], "delta", "expected whole numbers from 0 to 2"),
        ([True, False], "delta", "expected whole numbers from 0 to 2"),
        (["1", "1"], "delta", "expected whole numbers from 0 to 2"),
        ([1], "delta", r"action has shape \(1,\); expected \(2,\)"),
        ([[1, 1]], "delta", r"action has shape \(1, 2\); expected \(2,\)"),
        (1, "delta", r"action has shape \(\); expected \(2,\)"),
        ([0, 3], "delta", "expected whole numbers from 0 to 2"),
        ([-1, 1], "delta", "expected whole numbers from 0 to 2"),
        (np.array([2**64 - 1, 1], np.uint64), "delta", "expected whole numbers from 0 to 2"),
        ([1], "coupled", r"action has shape \(1,\); expected \(\)"),
        (5, "coupled", "expected whole numbers from 0 to 4"),
        (2.0, "coupled", "expected whole numbers from 0 to 4"),
        (None, "coupled", "expected whole numbers from 0 to 4"),
        ([1, 1], "joint", "action_mode is 'joint'; expected one of delta, coupled, absolute"),
        ([0, 3], "absolute", r"expected whole numbers from 0, below \(4, 3\)"),
        ([-1, 0], "absolute", r"expected whole numbers from 0, below \(4, 3\)"),
        ([1.0, 0.0], "absolute", "expected whole numbers"),
        ([1], "absolute", r"action has shape \(1,\); expected \(2,\)"),
    ],
)
def test_other_actions_are_refused(action, mode, message):
    with pytest.raises(InvalidSettingError, match=message):
        decode(action, mode)


def test_spaces():
    assert action_space("delta", LABELS, FEASIBLE) == gym.spaces.MultiDiscrete([3, 3])
    assert action_space("coupled", LABELS, FEASIBLE) == gym.spaces.Discrete(5)
    assert action_space("absolute", LABELS, FEASIBLE) == gym.spaces.MultiDiscrete([4, 3])
    with pytest.raises(InvalidSettingError, match="action_mode is 'x'"):
        action_space("x", LABELS, FEASIBLE)


def test_the_space_and_the_reader_agree_for_many_sizes():
    many = {label: tuple(2**k for k in range(10)) for label in LABELS}
    space, reader = action_space("coupled", LABELS, many), ActionReader.of("coupled", LABELS, many)
    assert (space.n, reader.still) == (19, 9)
    assert int(reader.read(space.n - 1)) == 9


def test_many_actions_at_once():
    delta, coupled = (ActionReader.of(mode, LABELS, FEASIBLE) for mode in ("delta", "coupled"))
    assert delta.read_all([[0, 1], [2, 1], [1, 1]], 3).tolist() == [[-1, 0], [1, 0], [0, 0]]
    assert coupled.read_all(np.array([0, 4]), 2).tolist() == [[-2], [2]]
    with pytest.raises(InvalidSettingError, match=r"shape \(2,\); expected \(3,\)"):
        coupled.read_all([1, 1], 3)
