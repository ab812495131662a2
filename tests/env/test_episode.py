"""Windows of episodes, and the penalty that agents are measured against."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from env_samples import LIBRARY

from scenario_lib.env.episode import OFOBaseline, episode_of
from scenario_lib.env.reward import RewardConfig
from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.library import ScenarioLibrary

RECORD = SimpleNamespace(t_control_start=100, t_control_end=160, ofo_voltage_pen_per_step=np.arange(140.0))


@pytest.mark.parametrize(
    ("record", "truncate", "dt", "start", "steps"),
    [
        (None, False, 1, 0, 119),
        (None, True, 1, 0, 119),
        (RECORD, False, 1, 0, 119),
        (RECORD, True, 1, 100, 59),
        (RECORD, True, 7, 100, 7),
        (RECORD, True, Fraction(1, 2), 100, 119),
    ],
)
def test_windows(record, truncate, dt, start, steps):
    episode = episode_of(record, truncate, 120, Fraction(dt))
    assert (episode.start_s, episode.n_steps, episode.time_s) == (start, steps, start)
    episode.step = 3
    assert episode.time_s == start + 3 * float(dt)


@pytest.mark.parametrize(("duration", "dt"), [(1, 1), (0, 1), (10, 6)])
def test_a_window_without_a_step_is_refused(duration, dt):
    with pytest.raises(InvalidSettingError, match=f"the episode window 0 to {duration} s has no step of {dt} s"):
        episode_of(None, False, duration, Fraction(dt))


@pytest.fixture
def baseline():
    return OFOBaseline(ScenarioLibrary(LIBRARY), RewardConfig(w_voltage=10.0))


def test_the_penalty_is_that_of_the_same_second(baseline):
    episode = episode_of(RECORD, True, 3600, Fraction(2))
    episode.step = 1
    assert baseline.penalty(episode) == 102
    assert baseline.window_penalty(episode, 4).tolist() == [100.0, 101.0, 102.0, 103.0]


def test_a_trace_that_ends_before_the_episode_is_refused_with_both_lengths(baseline):
    baseline.require_trace(episode_of(RECORD, False, 140, Fraction(1)))
    with pytest.raises(InvalidSettingError, match="reaches second 159, but OFO's penalty trace has 140 seconds"):
        baseline.require_trace(episode_of(RECORD, True, 3600, Fraction(1)))


def test_a_baseline_needs_a_library_its_limits_and_a_record(baseline):
    with pytest.raises(InvalidSettingError, match="ofo_baseline needs a scenario library"):
        OFOBaseline(None, RewardConfig())
    with pytest.raises(InvalidSettingError, match="reward limits 0.96 to 1.05 pu are not those of the library"):
        OFOBaseline(ScenarioLibrary(LIBRARY), RewardConfig(v_min=0.96))
    with pytest.raises(InvalidSettingError, match="needs a record"):
        baseline.penalty(episode_of(None, False, 10, Fraction(1)))
