"""Paired differences: mean, interval, wins and losses, by feeder and by kind of violation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scenario_lib.learning.comparison import Comparison, Figures, ScenarioFigures, write_comparison
from scenario_lib.learning.paired import paired_difference, paired_lines

FIGURES = Figures(10.0, 100.0, 0.93, 1.02, 5e6, 0.5, 0.06, 0.7, 3500.0, 4)


def compared(own: list[float], ofo: list[float], kinds: list[str]) -> Comparison:
    rows = []
    for index, (mine, theirs, kind) in enumerate(zip(own, ofo, kinds, strict=True)):
        for control, value in (("ofo", theirs), ("mine", mine)):
            figures = replace(FIGURES, integral_pu_s=value)
            rows.append(ScenarioFigures(index, index, kind, control, figures, None, "ieee13"))
    return Comparison(("ofo", "mine"), tuple(rows))


def test_wins_losses_and_the_mean_are_counted_by_scenario() -> None:
    found = paired_difference("f", "all", "mine", [1.0, 2.0, 6.0, 4.0], [2.0, 4.0, 3.0, 4.0])
    assert (found.scenarios, found.difference_pu_s, found.wins, found.losses) == (4, 0.0, 2, 1)


def test_the_interval_is_that_of_a_mean_and_the_same_again() -> None:
    """For many differences the interval nears the normal one: mean -+ 1.96 standard errors."""
    differences = np.random.default_rng(5).normal(-1.0, 2.0, size=400)
    first = paired_difference("f", "all", "mine", list(differences), [0.0] * 400)
    error = differences.std() / np.sqrt(400)
    assert first.low_pu_s == pytest.approx(differences.mean() - 1.96 * error, abs=0.15 * error)
    assert first.high_pu_s == pytest.approx(differences.mean() + 1.96 * error, abs=0.15 * error)
    assert paired_difference("f", "all", "mine", list(differences), [0.0] * 400) == first


def test_one_scenario_has_no_interval() -> None:
    found = paired_difference("f", "all", "mine", [1.0], [3.0])
    assert (found.difference_pu_s, found.low_pu_s, found.high_pu_s) == (-2.0, None, None)
    assert paired_lines("", [found])[-1].split() == ["mine", "all", "1", "-2.000", "-", "-", "1", "0"]


def test_kinds_of_violation_stand_apart() -> None:
    comparison = compared([1.0, 2.0, 9.0], [3.0, 4.0, 5.0], ["under", "under", "over"])
    found = [(row.kind, row.scenarios, row.difference_pu_s, row.wins, row.losses) for row in comparison.paired()]
    assert found == [("all", 3, 0.0, 2, 1), ("under", 2, -2.0, 2, 0), ("over", 1, 4.0, 0, 1)]


def test_scenarios_that_a_control_failed_in_are_left_out() -> None:
    comparison = compared([1.0, 2.0, 9.0], [3.0, 4.0, 5.0], ["under"] * 3)
    rows = list(comparison.scenarios)
    rows[5] = replace(rows[5], figures=None, failure="PowerFlowError: it did not converge")
    (only,) = replace(comparison, scenarios=tuple(rows)).paired()
    assert (only.scenarios, only.difference_pu_s, only.losses) == (2, -2.0, 0)


def test_without_ofo_there_is_nothing_to_pair(tmp_path: Path) -> None:
    comparison = compared([1.0], [3.0], ["under"])
    alone = Comparison(("mine",), comparison.scenarios[1:])
    assert alone.paired() == ()
    assert not any("less that under OFO" in line for line in alone.lines())
    write_comparison(tmp_path, alone)
    assert pq.read_table(tmp_path / "paired.parquet").num_rows == 0


def test_the_table_is_written_and_told(tmp_path: Path) -> None:
    comparison = compared([1.0, 2.0], [3.0, 4.0], ["under", "under"])
    write_comparison(tmp_path, comparison)
    assert pq.read_table(tmp_path / "paired.parquet").to_pylist() == comparison.to_dict()["paired"]
    assert "integral violation less that under OFO (pu s), with its 95% interval" in comparison.lines()
