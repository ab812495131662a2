import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from library_samples import edit_metadata, sample_row, write_rows

from scenario_lib.analysis.diff import diff_libraries, diff_lines
from scenario_lib.errors import LibraryError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings

RECIPE = Recipe(load_experiment("ieee13"), RandomizationSettings())
OTHER = Recipe(RECIPE.experiment, RandomizationSettings.from_openg2g({"pv_scale_max": 3.0}))


def library(folder: Path, rows: list[CandidateRow], recipe: Recipe = RECIPE, numpy: str = "2.0.0") -> Path:
    return write_rows(folder, rows, recipe, {"numpy": numpy})


def test_a_library_equals_itself_and_its_copy(tmp_path: Path) -> None:
    first = library(tmp_path / "a", [sample_row(7, True), sample_row(1007, False)])
    copy = Path(shutil.copytree(first, tmp_path / "b"))
    diff = diff_libraries(first, copy)
    assert diff.equal
    assert diff.kept == 1
    assert diff_lines(diff)[-1] == "equal"


def test_records_come_and_go(tmp_path: Path) -> None:
    first = library(tmp_path / "a", [sample_row(7, True), sample_row(1007, True)])
    second = library(tmp_path / "b", [sample_row(1007, True), sample_row(2007, True)])
    diff = diff_libraries(first, second)
    assert (diff.kept, diff.lost, diff.gained, diff.changed) == (1, (7,), (2007,), ())
    assert not diff.equal


def test_the_same_seed_under_other_settings_is_another_scenario(tmp_path: Path) -> None:
    first = library(tmp_path / "a", [sample_row(7, True)])
    second = library(tmp_path / "b", [sample_row(7, True)], recipe=OTHER)
    diff = diff_libraries(first, second)
    assert (diff.kept, diff.lost, diff.gained, diff.changed) == (0, (), (), (7,))
    (change,) = diff.provenance
    assert change.place.endswith("randomize_kwargs.pv_scale_max")
    assert (change.before, change.after) == (2.0, 3.0)


def test_flipped_verdicts_have_the_margin_of_the_criterion_that_decided(tmp_path: Path) -> None:
    row = replace(sample_row(7, False), scenario_digest="d", recovery_frac=0.71)
    accepted = replace(row, reason="no_violation", recovery_floor_margin=0.01)
    rejected = replace(row, reason="recovery_below_floor", recovery_frac=0.69, recovery_floor_margin=-0.01)
    first = library(tmp_path / "a", [accepted, sample_row(1007, True)])
    second = library(tmp_path / "b", [rejected, sample_row(1007, True)])
    (flip,) = diff_libraries(first, second).flipped
    assert (flip.seed, flip.before, flip.after) == (7, "no_violation", "recovery_below_floor")
    assert (flip.criterion, flip.margin_before, flip.margin_after) == ("recovery_floor_margin", 0.01, -0.01)
    assert not flip.changes_acceptance
    assert "recovery floor margin +0.01 -> -0.01" in str(flip)


def test_versions_that_changed_are_named(tmp_path: Path) -> None:
    first = library(tmp_path / "a", [sample_row(7, True)])
    second = library(tmp_path / "b", [sample_row(7, True)], numpy="2.1.0")
    diff = diff_libraries(first, second)
    assert [str(change) for change in diff.provenance] == ["versions.numpy: 2.0.0 -> 2.1.0"]
    assert diff.moved.records == 0


def test_rollouts_that_moved_are_counted(tmp_path: Path) -> None:
    first = library(tmp_path / "a", [sample_row(7, True), sample_row(1007, True)])
    second = Path(shutil.copytree(first, tmp_path / "b"))

    def move(metadata: dict) -> None:
        metadata["scenarios"][1]["ofo_integral"] += 0.25

    edit_metadata(second, move)
    moved = diff_libraries(first, second).moved
    assert (moved.records, moved.largest_integral_change) == (1, 0.25)


def test_the_comparison_is_strict_json(tmp_path: Path) -> None:
    first = library(tmp_path / "a", [sample_row(7, True)])
    second = library(tmp_path / "b", [sample_row(1007, True)], recipe=OTHER)
    facts = json.loads(json.dumps(diff_libraries(first, second).to_dict(), allow_nan=False))
    assert facts["lost"] == [7]
    assert facts["equal"] is False


def test_what_is_no_library_is_named(tmp_path: Path) -> None:
    first = library(tmp_path / "a", [sample_row(7, True)])
    with pytest.raises(LibraryError, match="nothing-here"):
        diff_libraries(first, tmp_path / "nothing-here")
