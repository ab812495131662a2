"""Normalisation of observations from stored statistics."""

import numpy as np
import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.learning.actor import Normalization, RunningStatistics


def test_observations_are_centred_scaled_and_clipped() -> None:
    statistics = RunningStatistics((1.0, 0.0, 0.0), (4.0, 0.0, 1.0), 10.0)
    seen = Normalization(statistics, None, 3.0, 10.0, 1e-2).observed(np.array([3, 0.05, -9], np.float32))
    assert seen.dtype == np.float32
    assert seen == pytest.approx([2 / np.sqrt(4.01), 0.5, -3.0], rel=1e-6)


def test_without_statistics_observations_stay_as_they_are() -> None:
    observation = np.array([100.0], np.float32)
    assert Normalization(None, None, 3.0, 3.0, 1e-8).observed(observation) is observation


def test_statistics_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match="mean has 1 numbers and var 2"):
        RunningStatistics((0.0,), (1.0, 1.0), 1.0)
    with pytest.raises(InvalidSettingError, match="var is -1.0; expected at least 0"):
        RunningStatistics((0.0,), (-1.0,), 1.0)
    with pytest.raises(InvalidSettingError, match="count"):
        RunningStatistics((0.0,), (1.0,), 0.0)
