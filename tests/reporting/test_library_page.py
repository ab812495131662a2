"""The page of a library: its numbers are the library's, whatever the library is like."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from library_samples import edit_metadata, sample_row, write_sample
from page_reader import read_page

from scenario_lib.errors import InvalidSettingError, LibraryError, UnknownNameError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.writer import NewLibrary, write_library
from scenario_lib.reporting.library_page import MEANING, library_page
from scenario_lib.reporting.sections import telling_records
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.criteria import Reason

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"
HOSTILE = "<script>alert(1)</script>$\\frac{"


@pytest.fixture(scope="module")
def html(compiled_library: ScenarioLibrary) -> str:
    return library_page(compiled_library.path).to_html()


def test_the_page_says_what_the_library_holds(html: str, compiled_library: ScenarioLibrary) -> None:
    page = read_page(html)
    assert "<title>Scenario library on ieee13</title>" in html
    assert "2 of 4 candidates accepted (2 under)" in page.text
    assert "files and draws: held" in page.text
    chosen = telling_records(compiled_library)
    for record, why in chosen:
        assert f"Seed {record.seed} ({why})" in page.text
        assert f"control window from {record.t_control_start} to" in " ".join(p["alt"] for p in page.all("img"))
    assert page.text.count("both penalty traces equal the stored ones, bit for bit") == len(chosen) > 0
    recipe = next(iter(compiled_library.recipes))
    assert f"Recipe {recipe}: settings of the draws" in page.text
    for digest in compiled_library.contents.digests.values():
        assert digest in page.text
    alts = " ".join(picture["alt"] for picture in page.all("img"))
    assert "Bars of 4 candidates by verdict: 2 accepted" in alts
    assert "Map of feeder ieee13 with datacenters (default at bus 671)" in alts


def test_equal_libraries_have_equal_pages_wherever_they_lie(
    html: str, compiled_library: ScenarioLibrary, tmp_path: Path
) -> None:
    copy = shutil.copytree(compiled_library.path, tmp_path / "another name")
    assert library_page(Path(copy)).to_html() == html


def test_scenarios_can_be_asked_for(compiled_library: ScenarioLibrary) -> None:
    page = library_page(compiled_library.path, seeds=(2007,))
    scenarios = next(section for section in page.sections if section.title == "Scenarios")
    assert [part.title for part in scenarios.parts] == ["Seed 2007 (asked for)"]
    with pytest.raises(UnknownNameError, match="no record of seed 8"):
        library_page(compiled_library.path, seeds=(8,))


def test_a_library_by_openg2gs_example_has_a_page_without_what_it_does_not_know() -> None:
    page = library_page(OPENG2G, seeds=(ScenarioLibrary(OPENG2G)[0].seed,))
    titles = [section.title for section in page.sections]
    assert titles == ["What is inside", "Difficulty", "Control windows", "Feeder", "Scenarios", "Provenance"]
    assert "cannot be verified" in page.lead
    assert "no candidates table" in read_page(page.to_html()).text


@pytest.mark.parametrize("reason", Reason)
def test_every_verdict_is_explained(reason: Reason) -> None:
    assert len(MEANING[reason]) > 15


def test_a_library_that_accepted_nothing_says_why(tmp_path: Path) -> None:
    recipe = Recipe(load_experiment("ieee13"), RandomizationSettings())
    screening = {"min_recovery_frac": 0.7, "max_recovery_frac": 1.0, "min_baseline_integral": 0.2}
    rows = [sample_row(seed, accepted=False, recipe=recipe.id) for seed in (7, 1007)]
    write_library(tmp_path, NewLibrary((recipe,), (), (), rows, screening, {}, reproducible=True), [])
    text = read_page(library_page(tmp_path).to_html()).text
    assert "0 of 2 candidates accepted" in text
    assert "no violation 2 100% the baseline stays within its limits" in text
    with pytest.raises(LibraryError, match="the library is empty"):
        library_page(tmp_path, seeds=(7,))


def test_a_library_of_several_recipes_shows_each(tmp_path: Path) -> None:
    experiment = load_experiment("ieee13")
    recipes = [Recipe(experiment, RandomizationSettings(ramp_up_prob=part)) for part in (0.1, 0.2)]
    path = write_sample(tmp_path / "library", [(recipes[0], [7, 1007]), (recipes[1], [7])])
    page = library_page(path)
    tables = {table.caption: table for section in page.sections for table in section.tables}
    rows = {(recipe, accepted, quota) for _, recipe, _, accepted, quota in tables["Strata"].rows}
    assert rows == {(recipes[0].id, "2 under", "none"), (recipes[1].id, "1 under", "none")}
    assert tables["Screening criteria"].head == ("criterion", "value")
    read_page(page.to_html())


def test_a_feeder_of_somebody_else_is_named_not_run_and_not_drawn(tmp_path: Path) -> None:
    experiment = load_experiment("ieee13")
    feeder = replace(experiment.feeder, name="a&lt-b", zones={"a&lt-b": ("671",)})
    path = write_sample(tmp_path / "l", [(Recipe(replace(experiment, feeder=feeder), RandomizationSettings()), [7])])
    page = read_page(library_page(path).to_html())
    assert "Scenario library on a&lt-b" in page.text
    assert "which does not ship; give its file as --system" in page.text


@pytest.mark.parametrize("field", ["name", "zones"])
def test_a_hostile_name_of_a_feeder_never_comes_so_far(field: str) -> None:
    feeder = load_experiment("ieee13").feeder
    with pytest.raises(InvalidSettingError, match="expected a name of letters"):
        replace(feeder, **{field: {HOSTILE: ("671",)} if field == "zones" else HOSTILE})


def test_a_record_that_is_not_what_it_was_makes_the_verdict_bad(
    compiled_library: ScenarioLibrary, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(compiled_library.path, tmp_path / "library"))
    edit_metadata(copy, lambda metadata: metadata["scenarios"][1].update(load_scale=1.0))
    page = library_page(copy)
    assert "files and draws: differs" in page.lead
    provenance = page.sections[-1]
    assert provenance.verdict == "bad"
    assert any("the scenario of seed 2007 cannot be replayed: load_scale" in text for text in provenance.text)
    shown = read_page(page.to_html()).text
    assert "Not shown:" in shown


def test_a_damaged_library_has_no_page(compiled_library: ScenarioLibrary, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(compiled_library.path, tmp_path / "library"))
    (copy / "candidates.parquet").write_bytes(b"PAR1")
    with pytest.raises(LibraryError, match=r"candidates\.parquet"):
        library_page(copy)


def test_the_most_telling_records_are_each_chosen_once() -> None:
    library = ScenarioLibrary(OPENG2G)
    chosen = telling_records(library)
    assert len({record.index for record, _ in chosen}) == len(chosen) <= 3
    hardest = next(record for record, why in chosen if "hardest" in why)
    assert hardest.baseline_integral == max(record.baseline_integral for record in library)
    least = next(record for record, why in chosen if "least recovered" in why)
    assert least.recovery_frac == min(record.recovery_frac for record in library)
    middle = next(record for record, why in chosen if "median" in why)
    assert middle.recovery_frac == sorted(record.recovery_frac for record in library)[1]


def test_each_kind_has_its_typical_record(tmp_path: Path) -> None:
    recipe = Recipe(load_experiment("ieee13"), RandomizationSettings())
    path = write_sample(tmp_path / "library", [(recipe, [7, 1007, 2007])])
    edit_metadata(path, lambda metadata: metadata["scenarios"][2].update(bl_overvoltage_time_s=9.0))
    reasons = [why for _, why in telling_records(ScenarioLibrary(path))]
    assert any("typical of its kind (mixed)" in why for why in reasons)
    assert any("typical of its kind (under)" in why for why in reasons)
