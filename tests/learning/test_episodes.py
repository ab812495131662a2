"""Rows of episodes: sums, and what is kept on resuming."""

from pathlib import Path

import pytest

from scenario_lib.errors import TrainingError
from scenario_lib.learning.run_folder import EpisodeTally, read_episodes, write_episodes

STEP = {"voltage": -3.0, "throughput": 0.5, "latency": 0.0, "switch": -0.25, "safe": 0.0, "ofo_baseline": 1.0}


def test_a_row_sums_the_steps_and_the_next_episode_starts_at_zero() -> None:
    tally = EpisodeTally(w_voltage=100.0)
    tally.add(-2.75, STEP, 10.0)
    tally.add(-2.75, STEP, 11.0)
    row = tally.finish({"scenario": 7}, 40, 11.5)
    assert (row.scenario_seed, row.total_steps, row.steps, row.episode_return) == (7, 40, 2, -5.5)
    assert (row.voltage, row.throughput, row.switch, row.ofo_baseline) == (-6.0, 1.0, -0.5, 2.0)
    assert row.violation_penalty_pu2 == pytest.approx(0.08)  # (2 - -6) / 100: OFO's part is no violation of the agent
    assert (row.wall_s, row.diverged) == (1.5, False)
    tally.add(0.0, {}, 12.0)
    diverged = tally.finish({"scenario": 8, "power_flow": "did not converge"}, 41, 12.0)
    assert (diverged.steps, diverged.voltage, diverged.diverged) == (1, 0.0, True)


def test_without_a_weight_the_violation_is_not_known() -> None:
    tally = EpisodeTally(w_voltage=0.0)
    tally.add(0.0, STEP, 0.0)
    assert tally.finish({}, 1, 0.0).violation_penalty_pu2 is None


def test_resuming_keeps_the_episodes_until_the_checkpoint(tmp_path: Path) -> None:
    tally = EpisodeTally(1.0)
    rows = [tally.finish({"scenario": seed}, 100 * seed, 0.0) for seed in (1, 2, 3)]
    write_episodes(tmp_path / "episodes.parquet", rows)
    assert read_episodes(tmp_path / "episodes.parquet", 200) == rows[:2]
    (tmp_path / "episodes.parquet").write_bytes(b"no table")
    with pytest.raises(TrainingError, match=r"episodes\.parquet: cannot be read"):
        read_episodes(tmp_path / "episodes.parquet", 200)
