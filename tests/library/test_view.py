"""Parts of a library, and weights on its records."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_samples import write_sample

from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.convert import convert_library
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.views import LibraryView, RecordFilter
from scenario_lib.scenario.settings import RandomizationSettings

LIBRARY = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


@pytest.fixture(scope="module")
def library() -> ScenarioLibrary:
    return ScenarioLibrary(LIBRARY)


def seeds(view: LibraryView) -> list[int]:
    return [record.seed for record in view]


def test_nothing_restricted_is_the_whole_library(library: ScenarioLibrary) -> None:
    view = LibraryView(library)
    assert seeds(view) == [record.seed for record in library] == [7, 2007, 6007]
    assert view[1] is library[1]
    assert view.recipes is library.recipes
    assert repr(view).startswith("LibraryView(3 of ")


def test_by_seed_kind_and_recovery(library: ScenarioLibrary) -> None:
    assert seeds(LibraryView(library, RecordFilter(seeds={6007, 7}))) == [7, 6007]
    for kind in ("under", "over", "mixed"):
        wanted = [record.seed for record in library if record.kind == kind]
        if wanted:
            assert seeds(LibraryView(library, RecordFilter(kinds=[kind]))) == wanted
    bands = sorted(record.recovery_frac for record in library)
    middle = LibraryView(library, RecordFilter(recovery=(bands[1], bands[1])))
    assert [record.recovery_frac for record in middle] == [bands[1]]


def test_weights_decide_how_often(library: ScenarioLibrary) -> None:
    view = LibraryView(library, weight=lambda record: {7: 3.0, 2007: 1.0, 6007: 0.0}[record.seed])
    rng = np.random.default_rng(0)
    drawn = [view.sample(rng).seed for _ in range(400)]
    assert 6007 not in drawn
    assert 260 < drawn.count(7) < 340
    again = np.random.default_rng(0)
    assert drawn == [view.sample(again).seed for _ in range(400)]


def test_equal_weights_draw_all(library: ScenarioLibrary) -> None:
    rng = np.random.default_rng(1)
    assert {LibraryView(library).sample(rng).seed for _ in range(60)} == {7, 2007, 6007}


def test_records_outside_are_found_by_name(library: ScenarioLibrary) -> None:
    view = LibraryView(library, RecordFilter(seeds=[7]))
    outside = view.record_for(2007)
    assert outside.seed == 2007
    assert view.materialize(outside) == library.materialize(outside)
    assert view.recipe_of(outside) is library.recipe_of(outside)


def test_a_pickled_view_draws_the_same(library: ScenarioLibrary) -> None:
    view = LibraryView(library, RecordFilter(seeds=[7, 2007]))
    copy = pickle.loads(pickle.dumps(view))
    left, right = np.random.default_rng(3), np.random.default_rng(3)
    assert [view.sample(left).seed for _ in range(9)] == [copy.sample(right).seed for _ in range(9)]


def test_what_cannot_be(library: ScenarioLibrary) -> None:
    with pytest.raises(InvalidSettingError, match="kinds is 'all'; expected among under, over, mixed"):
        RecordFilter(kinds=["all"])
    with pytest.raises(InvalidSettingError, match="expected .low, high. with low <= high"):
        RecordFilter(recovery=(0.9, 0.1))
    with pytest.raises(UnknownNameError, match="no record of seed 5"):
        LibraryView(library, RecordFilter(seeds=[5]))
    with pytest.raises(UnknownNameError, match="no record is left"):
        LibraryView(library, RecordFilter(recovery=(2.0, 3.0)))
    for weight in (-1.0, float("nan"), 0.0):
        with pytest.raises(InvalidSettingError, match="expected finite numbers of at least 0, not all 0"):
            LibraryView(library, weight=lambda record, weight=weight: weight)


@pytest.fixture(params=["library", "view", "sharded"])
def records(request: pytest.FixtureRequest, library: ScenarioLibrary, tmp_path: Path) -> ScenarioLibrary | LibraryView:
    if request.param == "sharded":
        recipe = Recipe(load_experiment("ieee13"), RandomizationSettings())
        convert_library(write_sample(tmp_path / "own", [(recipe, [7, 2007, 6007])]), "sharded", tmp_path / "sharded")
        return ScenarioLibrary(tmp_path / "sharded")
    return LibraryView(library) if request.param == "view" else library


@pytest.mark.parametrize("index", ["0", 1.0, True, None, np.array([0, 1]), (0,)])
def test_what_is_no_position_is_refused_by_name(records: ScenarioLibrary | LibraryView, index: Any) -> None:
    with pytest.raises(InvalidSettingError, match="record is .*expected a whole number"):
        records[index]


def test_positions_count_from_either_end(records: ScenarioLibrary | LibraryView) -> None:
    assert [records[np.int64(1)].seed, records[-1].seed] == [2007, 6007]
    for beyond in (3, -4):
        with pytest.raises(IndexError, match=f"record is {beyond}; expected -3 to 2"):
            records[beyond]
    assert [record.seed for record in records[1:]] == [2007, 6007]


@pytest.mark.parametrize("rng", ["x", 1.5, -1, True, [1, 2]])
def test_what_is_no_source_of_randomness_is_refused_by_name(records: ScenarioLibrary | LibraryView, rng: Any) -> None:
    with pytest.raises(InvalidSettingError, match="rng is .*expected a"):
        records.sample(rng)


def test_a_seed_draws_as_its_generator_does(records: ScenarioLibrary | LibraryView) -> None:
    drawn = [records.sample(seed).seed for seed in range(12)]
    assert drawn == [records.sample(np.random.default_rng(seed)).seed for seed in range(12)]
    assert records.sample(np.int64(3)).seed == drawn[3]


def test_a_seed_is_in_a_library_or_not(records: ScenarioLibrary | LibraryView) -> None:
    if isinstance(records, LibraryView):
        pytest.skip("a view holds records by weight and filter, and is asked by `seeds`")
    assert 7 in records
    assert np.int64(2007) in records
    assert 8 not in records
    assert records[0] in records
    with pytest.raises(InvalidSettingError, match="seed is 'x'; expected a whole number"):
        assert "x" in records


def test_records_are_rows_with_all_that_was_drawn(records: ScenarioLibrary | LibraryView) -> None:
    if isinstance(records, LibraryView):
        pytest.skip("tables are of whole libraries")
    frame = records.to_pandas("records")
    assert frame["seed"].tolist() == [7, 2007, 6007]
    scenario = records.materialize(records[1])
    row = frame.iloc[1]
    assert row["pv_scale"] == scenario.params.pv_scale == records[1].pv_scale
    assert row["pv_0_peak_kw_per_phase"] == scenario.pv_systems[0].peak_kw_per_phase
    assert row["load_0_peak_kw_per_phase"] == scenario.tvl[0].peak_kw_per_phase
    assert row["overlay_n_gpus"] == scenario.training_run.n_gpus
    (site,) = scenario.sites
    for model in site.models:
        assert row[f"{site.name}_{model.label}_initial_batch_size"] == model.initial_batch_size
        assert row[f"{site.name}_{model.label}_ramps"] == len(model.ramps)
    assert row["baseline_integral"] == records[1].baseline_integral
    assert {"kind", "recipe", "pv_t_shift_s"} <= set(frame.columns)
    with pytest.raises(UnknownNameError, match="table is 'record'; expected 'candidates' or 'records'"):
        records.to_pandas("record")


def test_completion_shows_public_names_only(library: ScenarioLibrary) -> None:
    assert {"sample", "materialize", "to_pandas"} <= set(dir(library))
    assert not [name for name in dir(library) if name.startswith("_")]
