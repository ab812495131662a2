"""What notebooks show of records, libraries and rollouts, and the candidates table as a data frame."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from library_samples import write_sample

from scenario_lib._html_table import html_table
from scenario_lib.errors import LibraryError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings

HOSTILE = "<script>alert('x')</script> & \"quoted\""


@pytest.fixture
def library(tmp_path: Path) -> ScenarioLibrary:
    experiment = load_experiment("ieee13")
    hostile = replace(experiment, feeder=replace(experiment.feeder, name="a&b"))
    return ScenarioLibrary(write_sample(tmp_path / "library", [(Recipe(hostile, RandomizationSettings()), [7, 1007])]))


def cells(html: str) -> dict[str, str]:
    return dict(re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", html))


def test_every_text_is_escaped() -> None:
    html = html_table(HOSTILE, {HOSTILE: HOSTILE})
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 3


def test_a_library_shows_what_it_holds(library: ScenarioLibrary) -> None:
    html = library._repr_html_()
    assert "<script" not in html
    assert "Scenario library of 2" in html
    assert cells(html)["kinds"] == "2 under"
    assert cells(html)["recovery by OFO"] == "94% to 94%"
    assert cells(html)["directory"] == str(library.path)


def test_a_record_shows_its_figures(library: ScenarioLibrary) -> None:
    shown = cells(library[0]._repr_html_())
    assert shown["integral violation"] == "8.5 pu s, under OFO 0.5 pu s"
    assert shown["control window"] == "1735 to 3326 s"
    assert shown["recipe"] == library[0].digests.recipe


def test_the_candidates_are_a_data_frame(library: ScenarioLibrary, tmp_path: Path) -> None:
    frame = library.to_pandas()
    assert frame["seed"].tolist() == [7, 1007, 999_007]
    assert frame["accepted"].tolist() == [True, True, False]
    assert frame["recovery_frac"].isna().all()
    (library.path / "candidates.parquet").unlink()
    with pytest.raises(LibraryError, match=r"candidates\.parquet"):
        ScenarioLibrary(library.path).to_pandas()
