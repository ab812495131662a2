"""The actor network in plain numbers, against sums done by hand."""

import math

import numpy as np
import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.learning.actor import Actor, Layer

FIRST = Layer(((1.0, 0.0), (0.0, -2.0)), (0.5, 0.0))
LAST = Layer(((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)), (0.0, 0.0, 0.0, 0.25))


@pytest.mark.parametrize(("activation", "first", "second"), [("tanh", math.tanh(1.5), math.tanh(-2)), ("relu", 1.5, 0)])
def test_scores_are_those_of_the_network(activation: str, first: float, second: float) -> None:
    scores = Actor((FIRST, LAST), activation, (2, 2), False).scores(np.array([1, 1], np.float32))
    assert scores == pytest.approx([first, second, first + second, 0.25], rel=1e-6)


def test_each_part_of_the_action_is_its_likeliest_choice_the_first_of_equals() -> None:
    actor = Actor((FIRST, LAST), "relu", (2, 2), False)
    assert actor.act(np.array([1, 1], np.float32)).tolist() == [0, 0]
    assert actor.act(np.array([-0.5, -1], np.float32)).tolist() == [1, 0]
    assert actor.act(np.array([-0.5, 0], np.float32)).tolist() == [0, 1]  # 0 beside 0, then 0 beside 0.25


def test_a_single_number_has_no_dimension() -> None:
    action = Actor((LAST,), "tanh", (4,), True).act(np.array([0, 1], np.float32))
    assert (np.shape(action), int(action)) == ((), 1)


def test_layers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match="no matrix"):
        Layer(((1.0,), (1.0, 2.0)), (0.0, 0.0))
    with pytest.raises(InvalidSettingError, match="do not make a network of 3 choices"):
        Actor((FIRST, LAST), "tanh", (3,), True)
    with pytest.raises(InvalidSettingError, match="activation is 'exp'"):
        Actor((LAST,), "exp", (4,), True)
