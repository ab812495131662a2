"""What is written: the contract's halves, our own keys beside them, and one or several recipes."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from library_samples import SCREENING, write_sample

from scenario_lib._files import file_digest
from scenario_lib.errors import UnknownNameError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings, Range

FILES = {"metadata.json", "traces.npz", "candidates.parquet", "resolved.parquet", "digests.json"}


@pytest.fixture
def two_recipes(recipe: Recipe, tmp_path: Path) -> Path:
    other = replace(recipe, settings=RandomizationSettings(ramp_up_prob=0.5, load_scale=Range(0.5, 1.5)))
    return write_sample(tmp_path / "two", [(recipe, [7, 1007]), (other, [7, 3007])])


def test_the_files_of_a_library_and_their_digests(library_path: Path) -> None:
    assert {path.name for path in library_path.iterdir()} == FILES
    digests = json.loads((library_path / "digests.json").read_text())
    assert digests["format_version"] == 2
    assert digests["sha256"] == {name: file_digest(library_path / name) for name in FILES - {"digests.json"}}


def test_our_own_keys_stay_outside_the_contract(library_path: Path, recipe: Recipe) -> None:
    metadata = json.loads((library_path / "metadata.json").read_text())
    assert set(metadata) == {
        *("config", "scenarios"),
        *("format_version", "reproducible", "versions", "screening", "recipes", "proofs"),
    }
    assert metadata["format_version"] == 2
    assert metadata["screening"] == SCREENING
    assert list(metadata["recipes"]) == [recipe.id]
    assert [proof["recipe"] for proof in metadata["proofs"]] == [recipe.id] * 3


def test_resolved_numbers_have_a_row_a_record(library_path: Path) -> None:
    rows = pq.read_table(library_path / "resolved.parquet").to_pylist()
    assert [row["seed"] for row in rows] == [7, 1007, 2007]
    assert json.loads(rows[0]["resolved"])["params"]["pv_scale"] == 0.9545486402289702


def test_equal_contents_are_equal_bytes(recipe: Recipe, library_path: Path, tmp_path: Path) -> None:
    again = write_sample(tmp_path / "again", [(recipe, [7, 1007, 2007])])
    for name in FILES:
        assert (again / name).read_bytes() == (library_path / name).read_bytes(), name


def test_several_recipes_leave_out_what_openg2g_would_replay_wrongly(two_recipes: Path) -> None:
    metadata = json.loads((two_recipes / "metadata.json").read_text())
    assert "randomize_kwargs" not in metadata["config"]
    assert metadata["config"] == {"n_candidates": 5, **SCREENING}
    assert len(metadata["recipes"]) == 2


def test_each_record_is_drawn_by_its_own_recipe(two_recipes: Path) -> None:
    library = ScenarioLibrary(two_recipes)
    assert [record.seed for record in library] == [7, 1007, 7, 3007]
    assert [library.recipe_of(record).settings.ramp_up_prob for record in library] == [0.0, 0.0, 0.5, 0.5]
    scenarios = [library.materialize(record) for record in library]
    assert scenarios[0] != scenarios[2]
    assert library.record_for(3007) is library[3]
    with pytest.raises(UnknownNameError, match="seed 7 is there in several recipes"):
        library.record_for(7)


def test_an_unfinished_write_leaves_no_temporary_files(recipe: Recipe, tmp_path: Path, monkeypatch) -> None:
    from scenario_lib.library import writer

    def failing(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(writer, "_write_resolved", failing)
    with pytest.raises(OSError, match="no space left"):
        write_sample(tmp_path / "lib", [(recipe, [7])])
    assert {path.name for path in (tmp_path / "lib").iterdir()} == {"traces.npz", "candidates.parquet"}
