"""The page of an evaluation, and what is refused."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_reader import read_page

from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.learning.comparison import Comparison, Figures, ScenarioFigures, write_comparison
from scenario_lib.reporting.comparison_page import evaluation_page, read_evaluation

FIGURES = Figures(10.0, 900.0, 0.93, 1.02, 2e6, 0.9, 0.05, 0.8, 3000.0, 4)
HOSTILE = "<script>$x$</script>"


def comparison(failed: bool = False) -> Comparison:
    entries = []
    for index in range(3):
        for control, factor in (("none", 1.0), ("ofo", 0.1), (HOSTILE, 0.3)):
            figures = replace(FIGURES, integral_pu_s=factor * (index + 1))
            broken = failed and index == 2 and control == "ofo"
            failure = "it broke" if broken else None
            entries.append(
                ScenarioFigures(index, index * 1000 + 7, "under", control, None if broken else figures, failure)
            )
    return Comparison(("none", "ofo", HOSTILE), tuple(entries))


def test_the_page_shows_what_evaluate_wrote(tmp_path: Path) -> None:
    write_comparison(tmp_path, comparison())
    page = evaluation_page(tmp_path)
    assert page.lead == f"none, ofo, {HOSTILE} over the same 3 scenarios; ofo removes most of the violation, 90%."
    means = page.sections[0].tables[0]
    assert [row[0] for row in means.rows] == ["none", "ofo", HOSTILE]
    assert means.rows[1][1:4] == ("0.2\u00a0pu s", "90%", "900\u00a0s")
    assert [section.title for section in page.sections] == [
        *("Controls", "Safety against throughput", "Every scenario", "Spreads")
    ]
    assert HOSTILE in read_page(page.to_html()).text


def test_two_feeders_have_sections_of_their_own(tmp_path: Path) -> None:
    one = comparison()
    entries = [replace(entry, feeder="a") for entry in one.scenarios]
    entries += [replace(entry, feeder="b <2>", index=entry.index + 3) for entry in one.scenarios if entry.index == 1]
    write_comparison(tmp_path, replace(one, scenarios=tuple(entries)))
    page = evaluation_page(tmp_path)
    assert "a: none, ofo" in page.lead
    assert "; b <2>: none, ofo" in page.lead
    assert "the same 3 scenarios" in page.lead
    assert "the same 1 scenarios" in page.lead
    titles = [section.title for section in page.sections]
    assert titles[0] == "a: Controls"
    assert titles[4] == "b <2>: Controls"
    assert [len(page.sections[place].tables[0].rows) for place in (2, 6)] == [3, 1]
    assert page.sections[0].tables[0].rows[1][1] == "0.2\u00a0pu s"
    names = [picture.name for section in page.sections for picture in section.pictures]
    assert len(set(names)) == len(names) == 6
    read_page(page.to_html())


def test_columns_are_read_control_by_control(tmp_path: Path) -> None:
    write_comparison(tmp_path, comparison(failed=True))
    integrals = read_evaluation(tmp_path).by_control("integral_pu_s")
    assert integrals["none"].tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(integrals["ofo"]).tolist() == [False, False, True]


def test_failures_are_named(tmp_path: Path) -> None:
    write_comparison(tmp_path, comparison(failed=True))
    page = evaluation_page(tmp_path)
    assert page.sections[-1].tables[0].rows == (("2007", "ofo", "it broke"),)
    assert "over the same 2 scenarios" in page.lead
    read_page(page.to_html())


def test_an_evaluation_without_the_uncontrolled_one_has_no_best(tmp_path: Path) -> None:
    whole = comparison()
    only = tuple(entry for entry in whole.scenarios if entry.control == "ofo")
    write_comparison(tmp_path, Comparison(("ofo",), only))
    page = evaluation_page(tmp_path)
    assert page.lead == "ofo over the same 3 scenarios."
    read_page(page.to_html())


def test_what_is_not_an_evaluation_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"scenarios\.parquet: no such file"):
        read_evaluation(tmp_path)
    write_comparison(tmp_path, comparison())
    pq.write_table(pa.table({"control": ["none"]}), tmp_path / "summary.parquet")
    with pytest.raises(DataFileError, match=r"summary\.parquet"):
        read_evaluation(tmp_path)
    (tmp_path / "summary.parquet").write_bytes(b"nonsense")
    with pytest.raises(DataFileError, match=r"summary\.parquet: cannot be read"):
        read_evaluation(tmp_path)


def test_reading_an_evaluation_needs_no_torch() -> None:
    import subprocess

    code = (
        "import scenario_lib.reporting.comparison_page, sys; "
        "print([name for name in ('torch', 'stable_baselines3', 'scenario_lib.learning') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
