"""`ScenarioLibrary`: a sequence of records that gives their scenarios back exactly, or not at all."""

import json
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from library_samples import edit_metadata, fix_digests, sample_traces, write_sample
from openg2g.datacenter.workloads.training import TrainingTrace, TrainingTraceParams

from scenario_lib.errors import InvalidSettingError, LibraryError, ReplayError, UnknownNameError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.model import resolve, scenario_from_resolved
from scenario_lib.scenario.randomize import randomize_scenario


@pytest.fixture
def library(library_path: Path) -> ScenarioLibrary:
    return ScenarioLibrary(library_path)


def test_it_is_a_sequence_of_its_records(library: ScenarioLibrary) -> None:
    assert len(library) == 3
    assert [record.seed for record in library] == [7, 1007, 2007]
    assert library[0] is library.scenarios[0]
    assert library[-1].seed == 2007
    assert [record.index for record in library] == [0, 1, 2]
    with pytest.raises(IndexError):
        library[3]


def test_the_repr_says_what_is_inside(library: ScenarioLibrary) -> None:
    assert repr(library) == f"ScenarioLibrary({str(library.path)!r}: 3 scenarios on ieee13; 3 under)"


def test_config_and_recipe_are_there(library: ScenarioLibrary, recipe: Recipe) -> None:
    assert library.config["system"] == "ieee13"
    assert library.config["n_candidates"] == 4
    assert library.recipes == {recipe.id: library.recipe_of(library[0])}
    assert library.recipe_of(library[0]).settings == recipe.settings


def test_traces_belong_to_their_record(library: ScenarioLibrary) -> None:
    for record in library:
        baseline, ofo = sample_traces(record.seed)
        assert np.array_equal(record.baseline_voltage_pen_per_step, baseline)
        assert np.array_equal(record.ofo_voltage_pen_per_step, ofo)


def test_the_candidates_table_has_the_rejected_too(library: ScenarioLibrary) -> None:
    assert library.candidates.column("seed").to_pylist() == [7, 1007, 2007, 999_007]
    assert library.candidates.column("accepted").to_pylist() == [True, True, True, False]


def test_materialize_gives_the_scenario_of_the_seed(library: ScenarioLibrary, recipe: Recipe) -> None:
    for record in library:
        drawn = randomize_scenario(record.seed, experiment=recipe.experiment, settings=recipe.settings)
        assert library.materialize(record) == drawn
        assert scenario_from_resolved(library.stored_numbers(record)) == drawn


def test_stored_numbers_are_those_of_the_scenario(library: ScenarioLibrary) -> None:
    record = library[1]
    assert library.stored_numbers(record) == json.loads(json.dumps(resolve(library.materialize(record))))


def test_sampling_is_reproducible_and_reaches_every_record(library: ScenarioLibrary) -> None:
    draws = [library.sample(np.random.default_rng(3)).seed for _ in range(2)]
    assert draws[0] == draws[1]
    rng, again = np.random.default_rng(4), np.random.default_rng(4)
    sequence = [library.sample(rng).seed for _ in range(60)]
    assert sequence == [library.sample(again).seed for _ in range(60)]
    assert set(sequence) == {7, 1007, 2007}
    assert library.sample().seed in {7, 1007, 2007}


def test_a_record_by_its_seed(library: ScenarioLibrary) -> None:
    assert library.record_for(1007) is library[1]
    assert library.record_for(np.int64(2007)) is library[2]
    with pytest.raises(UnknownNameError, match=r"no record of seed 8; the library has 7, 1007, 2007"):
        library.record_for(8)
    with pytest.raises(InvalidSettingError, match="seed is 7.5; expected a whole number"):
        library.record_for(7.5)


def test_a_record_of_another_library_is_refused(library: ScenarioLibrary, openg2g_path: Path) -> None:
    theirs = ScenarioLibrary(openg2g_path)
    with pytest.raises(UnknownNameError, match="record of seed 7 is not one of this library"):
        library.materialize(theirs[0])
    with pytest.raises(UnknownNameError, match="record of seed 7 is not one of this library"):
        theirs.materialize(library[0])


def test_a_library_travels_between_processes(library: ScenarioLibrary) -> None:
    library[0].ofo_voltage_pen_per_step.sum()
    copy = pickle.loads(pickle.dumps(library))
    assert len(copy) == 3
    assert np.array_equal(copy[2].ofo_voltage_pen_per_step, library[2].ofo_voltage_pen_per_step)
    assert copy.materialize(copy[0]) == library.materialize(library[0])


def test_the_current_directory_does_not_matter(library_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.chdir(library_path.parent)
        library = ScenarioLibrary("library")
    assert library.path == library_path
    assert library[0].ofo_voltage_pen_per_step.shape == (3600,)


def test_opening_loads_neither_opendss_nor_torch_nor_matplotlib(library_path: Path) -> None:
    code = (
        "import sys; from scenario_lib.library.library import ScenarioLibrary\n"
        f"library = ScenarioLibrary({str(library_path)!r}); assert 'pandas' not in sys.modules\n"
        "library.materialize(library[0])\n"
        "print(sorted({'opendssdirect', 'dss', 'torch', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ten_thousand_records_open_quickly_and_traces_stay_closed(library_path: Path) -> None:
    def multiply(metadata: dict) -> None:
        entry, proof = metadata["scenarios"][0], metadata["proofs"][0]
        metadata["scenarios"] = [{**entry, "seed": 1000 * i + 7} for i in range(10_000)]
        metadata["proofs"] = [proof] * 10_000

    edit_metadata(library_path, multiply)
    (library_path / "traces.npz").write_bytes(b"nobody reads this before it is asked for")
    started = time.process_time()
    library = ScenarioLibrary(library_path)
    elapsed_s = time.process_time() - started
    print(f"10 000 records opened in {elapsed_s:.2f} s of processor time")
    assert len(library) == 10_000
    assert elapsed_s < 3, "well below a second is usual"
    assert library.record_for(9_999_007).index == 9999
    with pytest.raises(LibraryError, match=r"traces.npz: trace ofo_0 cannot be read"):
        _ = library[0].ofo_voltage_pen_per_step


# --- the training trace


def test_the_librarys_own_training_trace_is_accepted(library_path: Path) -> None:
    library = ScenarioLibrary(library_path, training_trace=TrainingTrace.generate())
    assert library.materialize(library[0]).training_run is not None


def test_another_training_trace_is_refused_on_opening(library_path: Path) -> None:
    other = TrainingTrace.generate(TrainingTraceParams(seed=1))
    with pytest.raises(ReplayError, match=r"the given training trace is not the one.*leave training_trace away"):
        ScenarioLibrary(library_path, training_trace=other)


def test_a_library_without_digests_takes_any_training_trace(openg2g_path: Path) -> None:
    other = TrainingTrace.generate(TrainingTraceParams(seed=1))
    assert len(ScenarioLibrary(openg2g_path, training_trace=other)) == 3


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seed": 1}, "the training trace generated now is not the one"),
        ({"seed": "one"}, "training_trace_params: "),
        ({"seed": None}, "training_trace_params: "),
        ({"duration_s": -5}, "training_trace_params: -5.0 s at 0.1 s is not between 1 and 1000000 samples"),
        ({"duration_s": 1e15}, "training_trace_params: 1000000000000000.0 s at 0.1 s is not between"),
    ],
)
def test_edited_parameters_of_the_training_trace_are_noticed(library_path: Path, change: dict, text: str) -> None:
    def edit(metadata: dict) -> None:
        (tables,) = metadata["recipes"].values()
        tables["data"]["training_trace_params"] |= change

    edit_metadata(library_path, edit)
    library = ScenarioLibrary(library_path)
    with pytest.raises((ReplayError, LibraryError), match=text) as caught:
        library.materialize(library[0])
    assert "\n" not in str(caught.value)


# --- records that cannot be replayed


def test_an_edited_recipe_names_the_first_field_that_differs(library_path: Path) -> None:
    def edit(metadata: dict) -> None:
        (tables,) = metadata["recipes"].values()
        tables["randomize_kwargs"]["load_scale_max"] = 1.9

    edit_metadata(library_path, edit)
    library = ScenarioLibrary(library_path)
    stored = library.stored_numbers(library[0])["params"]["load_scale"]
    with pytest.raises(ReplayError) as caught:
        library.materialize(library[0])
    message = str(caught.value)
    assert f"{library.path}: the scenario of seed 7 cannot be replayed" in message
    assert "params.load_scale: found 0.8" in message
    assert f"expected {stored!r}" in message
    assert "\n" not in message


def test_an_edited_experiment_names_the_first_field_that_differs(library_path: Path) -> None:
    def edit(metadata: dict) -> None:
        (tables,) = metadata["recipes"].values()
        tables["experiment"]["pv_systems"][0]["power_factor"] = 0.9

    edit_metadata(library_path, edit)
    library = ScenarioLibrary(library_path)
    with pytest.raises(ReplayError, match=r"pv_power_factors\[0\]: found 0.9, expected 1.0"):
        library.materialize(library[0])


def test_an_edited_digest_of_a_scenario_is_named(library_path: Path) -> None:
    edit_metadata(library_path, lambda metadata: metadata["proofs"][1].update(scenario_digest="0" * 64))
    library = ScenarioLibrary(library_path)
    library.materialize(library[0])
    with pytest.raises(ReplayError, match="seed 1007 cannot be replayed.*its stored digest was changed"):
        library.materialize(library[1])


def test_an_edited_seed_is_refused(library_path: Path) -> None:
    edit_metadata(library_path, lambda metadata: metadata["scenarios"][0].update(seed=8))
    library = ScenarioLibrary(library_path)
    with pytest.raises(ReplayError, match=r"seed 8 cannot be replayed.*dc_sites\.default\.models\[0\]"):
        library.materialize(library[0])


@pytest.mark.parametrize("field", ["pv_scale", "load_scale"])
def test_an_edited_scale_is_refused(library_path: Path, field: str) -> None:
    edit_metadata(library_path, lambda metadata: metadata["scenarios"][0].update({field: 1.25}))
    library = ScenarioLibrary(library_path)
    with pytest.raises(ReplayError, match=f"seed 7 cannot be replayed: {field}: found 0.9.*, expected 1.25"):
        library.materialize(library[0])


def test_an_edited_overlay_is_refused(library_path: Path) -> None:
    edit_metadata(library_path, lambda metadata: metadata["scenarios"][0].update(training_overlay=None))
    library = ScenarioLibrary(library_path)
    with pytest.raises(ReplayError, match="seed 7 cannot be replayed: training_overlay: found {.*expected None"):
        library.materialize(library[0])


def test_without_the_resolved_numbers_the_refusal_still_is_one_line(library_path: Path) -> None:
    edit_metadata(library_path, lambda metadata: metadata["proofs"][0].update(scenario_digest="0" * 64))
    (library_path / "resolved.parquet").unlink()
    library = ScenarioLibrary(library_path)
    with pytest.raises(ReplayError, match=r"seed 7 cannot be replayed.*resolved.parquet: ") as caught:
        library.materialize(library[0])
    assert "\n" not in str(caught.value)


def test_swapped_traces_are_refused(library_path: Path) -> None:
    def swap(metadata: dict) -> None:
        first, second = metadata["proofs"][:2]
        first["ofo_digest"], second["ofo_digest"] = second["ofo_digest"], first["ofo_digest"]

    edit_metadata(library_path, swap)
    record = ScenarioLibrary(library_path)[0]
    with pytest.raises(LibraryError, match="trace ofo_0 is not the one that was screened"):
        _ = record.ofo_voltage_pen_per_step
    assert record.baseline_voltage_pen_per_step.shape == (3600,)


def test_a_library_published_over_an_open_one_is_noticed(library_path: Path, recipe: Recipe, tmp_path: Path) -> None:
    """A reader that opened the old one and reads a trace only now gets an error, not a trace of another scenario."""
    library = ScenarioLibrary(library_path)
    other = write_sample(tmp_path / "other", [(recipe, [5007, 6007, 7007])])
    (other / "traces.npz").replace(library_path / "traces.npz")
    with pytest.raises(LibraryError, match=r"traces.npz: trace baseline_1 .*the library changed since it was opened"):
        _ = library[1].baseline_voltage_pen_per_step
    fix_digests(library_path)
    with pytest.raises(LibraryError, match="the library changed"):
        _ = ScenarioLibrary(library_path)[1].baseline_voltage_pen_per_step
