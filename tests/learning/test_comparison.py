"""Comparisons: means, the part removed, scenarios that failed, and the files."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from scenario_lib.errors import MissingDataError
from scenario_lib.learning.comparison import Comparison, Figures, ScenarioFigures, write_comparison

FIGURES = Figures(10.0, 100.0, 0.93, 1.02, 5e6, 0.5, 0.06, 0.7, 3500.0, 4)


def entry(index: int, control: str, **changes: object) -> ScenarioFigures:
    return ScenarioFigures(index, 1000 * index + 7, "under", control, replace(FIGURES, **changes), None)  # type: ignore[arg-type]


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(
        ("none", "mine"),
        (
            entry(0, "none"),
            entry(0, "mine", integral_pu_s=4.0, worst_v_min_pu=0.92, batch_changes=9),
            entry(1, "none", integral_pu_s=30.0, itl_p99_s=None),
            entry(1, "mine", integral_pu_s=0.0),
            entry(2, "none", integral_pu_s=1000.0),
            ScenarioFigures(2, 2007, "under", "mine", None, "PowerFlowError: it did not converge"),
        ),
        ("careful",),
    )


def test_a_summary_counts_scenarios_that_all_controls_played(comparison: Comparison) -> None:
    none, mine = comparison.summaries()
    assert (none.scenarios, none.failed, none.integral_pu_s, none.removed_frac) == (2, 0, 20.0, 0.0)
    assert (mine.scenarios, mine.failed, mine.integral_pu_s, mine.removed_frac) == (2, 1, 2.0, 0.9)
    assert (mine.worst_v_min_pu, mine.batch_changes) == (0.92, 6.5)
    assert none.itl_p99_s == 0.06


def test_without_no_control_nothing_is_said_to_be_removed(comparison: Comparison) -> None:
    only = Comparison(("mine",), tuple(e for e in comparison.scenarios if e.control == "mine"))
    assert only.summaries()[0].removed_frac is None


def test_the_table_shows_figures_warnings_and_failures(comparison: Comparison) -> None:
    lines = comparison.lines()
    assert lines[0] == "warning: careful"
    assert " ".join(lines[4].split()) == "none 20.000 0.0% 100 0.9300 1.0200 5.000 50.0% 60.0 0.70 3.500 4"
    assert lines[5].split()[:3] == ["mine", "2.000", "90.0%"]
    assert [line.split() for line in lines[10:12]] == [["1007", "under", "30", "0"], ["2007", "under", "1e+03", "-"]]
    assert lines[-1] == "failed: seed 2007 under mine: PowerFlowError: it did not converge"


def test_feeders_are_never_averaged_with_one_another(comparison: Comparison, tmp_path: Path) -> None:
    """Each has its own means, part removed and count; one that failed takes no scenario from the other."""
    other = [replace(entry, feeder="b", index=entry.index + 3) for entry in comparison.scenarios[2:4]]
    both = replace(comparison, scenarios=(*(replace(entry, feeder="a") for entry in comparison.scenarios), *other))
    assert both.feeders == ("a", "b")
    found = {(row.feeder, row.control): row for row in both.summaries()}
    assert list(found) == [("a", "none"), ("a", "mine"), ("b", "none"), ("b", "mine")]
    assert [found[pair].scenarios for pair in found] == [2, 2, 1, 1]
    assert [found[pair].integral_pu_s for pair in found] == [20.0, 2.0, 30.0, 0.0]
    assert [found[pair].removed_frac for pair in found] == [0.0, 0.9, 0.0, 1.0]
    alone = [replace(row, feeder="a") for row in comparison.summaries()]
    assert list(both.summaries()[:2]) == alone
    lines = both.lines()
    assert "a: means over 2 scenarios; lowest and highest voltages over all" in lines
    assert "b: means over 1 scenarios; lowest and highest voltages over all" in lines
    assert [line for line in lines if line.endswith("per scenario")] == [
        f"{name}: integral violation (pu s) per scenario" for name in "ab"
    ]
    write_comparison(tmp_path, both)
    assert pq.read_table(tmp_path / "summary.parquet")["feeder"].to_pylist() == ["a", "a", "b", "b"]
    assert [row["feeder"] for row in both.to_dict()["scenarios"]] == ["a"] * 6 + ["b"] * 2


def test_files_hold_the_tables_and_are_the_same_bytes_again(comparison: Comparison, tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        write_comparison(folder, comparison)
    for name in ("scenarios.parquet", "summary.parquet", "table.txt"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert pq.read_table(tmp_path / "a" / "scenarios.parquet").to_pylist() == comparison.to_dict()["scenarios"]
    assert pq.read_table(tmp_path / "a" / "summary.parquet").to_pylist() == comparison.to_dict()["summary"]


def test_a_file_in_the_way_is_an_error(comparison: Comparison, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingDataError, match="cannot be made"):
        write_comparison(tmp_path / "file", comparison)
