"""Validation names the cause: data, versions, numpy's random stream, the processor, an edit, a damaged file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_samples import edit_metadata

from scenario_lib._files import digest_of
from scenario_lib.library.layout import BUILD_LOG
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.provenance import built_on
from scenario_lib.library.recipe import Recipe, inputs_digest, recipe_from_dict
from scenario_lib.screening.build_record import machine
from scenario_lib.validation import checks as conditions
from scenario_lib.validation.findings import Cause, Grade
from scenario_lib.validation.validate import ReplayOptions, ValidationReport, validate_library

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def library(built_library: Path, tmp_path: Path) -> Path:
    """A copy of the real library, to be changed."""
    return Path(shutil.copytree(built_library, tmp_path / "library"))


def validated(path: Path, **options: Any) -> ValidationReport:
    return validate_library(path, ReplayOptions(**options))


def move_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make numpy draw otherwise, as a new version may."""

    def other(seed: int | None = None) -> np.random.Generator:
        return np.random.Generator(np.random.MT19937(seed))

    monkeypatch.setattr(np.random, "default_rng", other)


def edit_recipe(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Edit the one recipe as someone would who also corrects its identifier and every digest that it is in."""

    def edit_all(metadata: dict[str, Any]) -> None:
        ((_, tables),) = metadata["recipes"].items()
        edit(tables)
        recipe = recipe_from_dict(tables, "test")
        metadata["recipes"] = {recipe.id: tables}
        for proof, entry in zip(metadata["proofs"], metadata["scenarios"], strict=True):
            trains = entry["training_overlay"] is not None
            inputs = inputs_digest(recipe, proof["engine"], proof["scenario_digest"], trains)
            proof |= {"recipe": recipe.id, "inputs_digest": inputs}

    edit_metadata(path, edit_all)


# --- without a rollout


def test_a_moved_random_stream_is_named_for_every_record(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_the_stream(monkeypatch)
    report = validated(library)
    assert report.grade is Grade.DIFFERS
    assert report.causes == (Cause.RANDOM_STREAM,)
    assert [(verdict.grade, verdict.causes) for verdict in report.verdicts] == [
        (Grade.DIFFERS, (Cause.RANDOM_STREAM,))
    ] * 2
    note = report.findings[0]
    assert (note.grade, note.causes) == (Grade.HELD, (Cause.RANDOM_STREAM,))
    assert "draws otherwise (uniform, integers, choice" in note.message
    assert "--from-numbers" in note.message


def test_stored_numbers_hold_under_a_moved_stream_and_say_so(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_the_stream(monkeypatch)
    report = validated(library, from_numbers=True)
    assert (report.grade, report.from_numbers, report.findings) == (Grade.HELD, True, ())


def test_an_edited_record_is_told_from_a_moved_stream(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit_metadata(library, lambda metadata: metadata["scenarios"][1].update(load_scale=1.0))
    move_the_stream(monkeypatch)
    assert [verdict.causes for verdict in validated(library).verdicts] == [
        (Cause.RANDOM_STREAM,),
        (Cause.EDITED_RECORD,),
    ]


EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], Cause]] = {
    "seed": (lambda m: m["scenarios"][0].update(seed=8), Cause.EDITED_RECORD),
    "draw": (lambda m: m["scenarios"][0].update(pv_scale=1.5), Cause.EDITED_RECORD),
    "overlay": (lambda m: m["scenarios"][0].update(training_overlay=None), Cause.EDITED_RECORD),
    "scenario digest": (lambda m: m["proofs"][0].update(scenario_digest="0" * 64), Cause.EDITED_RECORD),
    "inputs digest": (lambda m: m["proofs"][0].update(inputs_digest="0" * 64), Cause.EDITED_RECORD),
    "trace digest": (lambda m: m["proofs"][0].update(ofo_digest="0" * 64), Cause.EDITED_RECORD),
    "engine": (lambda m: m["proofs"][0].update(engine="compiled"), Cause.EDITED_RECORD),
    "unknown engine": (lambda m: m["proofs"][0].update(engine="abacus"), Cause.EDITED_RECORD),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_a_record_is_named_and_stays_with_it(library: Path, name: str) -> None:
    edit, cause = EDITS[name]
    edit_metadata(library, edit)
    report = validated(library)
    assert [verdict.grade for verdict in report.verdicts] == [Grade.DIFFERS, Grade.HELD]
    assert report.verdicts[0].causes == (cause,)


RECIPE_EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a setting that these draws miss": lambda r: r["randomize_kwargs"].update(pv_cloud_count_max=4),
    "a setting": lambda r: r["randomize_kwargs"].update(pv_scale_max=1.5),
    "a limit": lambda r: r["experiment"]["limits"].update(v_min_pu=0.94),
    "tuning": lambda r: r["experiment"]["ofo"].update(w_switch=2.0),
    "circuit": lambda r: r["data"].update(circuit="0" * 64),
    "models": lambda r: r["data"].update(models="0" * 64),
}


@pytest.mark.parametrize("name", RECIPE_EDITS)
def test_an_edit_of_a_recipe_is_named(library: Path, name: str) -> None:
    edit_metadata(library, lambda metadata: RECIPE_EDITS[name](next(iter(metadata["recipes"].values()))))
    report = validated(library)
    assert report.grade is Grade.DIFFERS
    assert report.causes == (Cause.EDITED_RECIPE,)
    assert report.findings[0].record is None


@pytest.mark.parametrize("name", ["traces.npz", "candidates.parquet", "resolved.parquet", "digests.json"])
def test_a_damaged_file_is_named(library: Path, name: str) -> None:
    content = (library / name).read_bytes()
    (library / name).write_bytes(content[:-1])
    report = validated(library)
    assert report.grade is Grade.DIFFERS
    assert report.causes == (Cause.DAMAGED_FILE,)
    assert any(str(library / name) in finding.message for finding in report.findings)


def test_digests_that_say_the_same_in_other_words_are_found(library: Path) -> None:
    digests = json.loads((library / "digests.json").read_text())
    (library / "digests.json").write_text(json.dumps(digests))
    report = validated(library)
    assert [finding.message for finding in report.findings] == [
        f"{library / 'digests.json'}: is not the file that was written"
    ]


# --- with rollouts


def test_identical_replays_have_no_cause(library: Path, replays) -> None:
    replays(library)
    report = validated(library, records=None)
    assert (report.grade, report.findings) == (Grade.HELD, ())
    assert [(verdict.grade, verdict.replayed, verdict.causes) for verdict in report.verdicts] == [
        (Grade.HELD, True, ())
    ] * 2


def test_a_trace_edited_with_all_its_digests_is_an_edit_when_nothing_else_differs(library: Path, replays) -> None:
    replays(library, {1900: 1e-3})
    report = validated(library, records=1)
    assert report.causes == (Cause.EDITED_RECORD,)
    assert [verdict.replayed for verdict in report.verdicts] == [True, False]


@pytest.mark.parametrize(("amount", "grade"), [(1e-12, Grade.WITHIN_TOLERANCE), (1e-3, Grade.DIFFERS)])
def test_another_processor_is_named(library: Path, replays, amount: float, grade: Grade) -> None:
    replays(library, {1900: amount})
    log = json.loads((library / BUILD_LOG).read_text())
    log["machine"]["cpu_features"] = ["X86_V2"]
    (library / BUILD_LOG).write_text(json.dumps(log))
    report = validated(library, records=None)
    assert report.grade is grade
    assert report.causes == (Cause.CPU_FEATURES,)
    assert report.findings[0].message.startswith("cpu_features here: ")
    assert report.findings[0].message.endswith("; where the library was built: X86_V2")


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"machine": 5}', '{"machine": {"cpus": 4}}'])
def test_a_build_log_that_says_nothing_is_no_fault(library: Path, replays, content: str | None) -> None:
    replays(library)
    (library / BUILD_LOG).unlink()
    if content is not None:
        (library / BUILD_LOG).write_text(content)
    assert validated(library, records=None).findings == ()
    replays(library, {1900: 1e-3})
    assert validated(library, records=1).causes == (), "another processor, or an edit: that cannot be told"


def test_the_build_log_says_what_last_bits_depend_on(library: Path) -> None:
    facts = built_on(library)
    assert facts["cpu_features"] == machine()["cpu_features"]
    assert len(facts["cpu_features"]) >= 1
    assert all(isinstance(kernel, str) for kernel in facts["blas"])


@pytest.mark.parametrize(
    ("name", "cause"),
    [("circuit", Cause.CIRCUIT), ("models", Cause.MODELS), ("training_trace", Cause.TRAINING_TRACE)],
)
def test_other_data_are_named(library: Path, replays, name: str, cause: Cause, monkeypatch) -> None:
    edit_recipe(library, lambda recipe: recipe["data"].update({name: "0" * 64}))
    monkeypatch.setattr(ScenarioLibrary, "_check_generated_trace", lambda *_: None)
    monkeypatch.setattr("scenario_lib.validation.validate.check_files", lambda *_: ())
    replays(library, {1900: 1e-3})
    report = validated(library, records=None)
    assert report.grade is Grade.DIFFERS
    assert report.causes == (cause,)
    assert report.findings[0].grade is Grade.HELD


def test_a_trace_that_is_generated_otherwise_refuses_the_draw(library: Path) -> None:
    edit_recipe(library, lambda recipe: recipe["data"].update(training_trace="0" * 64))
    report = validated(library)
    assert {verdict.causes for verdict in report.verdicts} == {(Cause.TRAINING_TRACE,)}


def test_another_experiment_is_a_note_and_no_cause(library: Path, replays, monkeypatch: pytest.MonkeyPatch) -> None:
    edit_recipe(library, lambda recipe: recipe["experiment"]["ofo"].update(w_switch=2.0))
    monkeypatch.setattr("scenario_lib.validation.validate.check_files", lambda *_: ())
    replays(library)
    report = validated(library, records=None)
    assert (report.grade, report.causes) == (Grade.HELD, ())
    assert [finding.causes for finding in report.findings] == [(Cause.EXPERIMENT,)]
    assert "experiment 'ieee13' here is not the library's (ofo.w_switch: found " in report.findings[0].message


def test_other_versions_are_named(library: Path, replays, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {**ScenarioLibrary(library).contents.versions, "openg2g": "9.9", "numba": "0.1"}
    monkeypatch.setattr(conditions, "versions", lambda: here)
    replays(library, {1900: 1e-3})
    report = validated(library, records=1)
    assert report.causes == (Cause.VERSIONS,)
    assert "numba: found '0.1', expected " in report.findings[0].message
    assert "openg2g: found '9.9', expected " in report.findings[0].message


def test_rollouts_from_stored_numbers_differ_where_they_draw_themselves(library: Path, monkeypatch, replays) -> None:
    """Under a moved stream the scenario is exact; the replay says that its rollouts are not, and why."""
    replays(library, {1900: 1e-3})
    move_the_stream(monkeypatch)
    report = validated(library, records=None, from_numbers=True)
    assert report.grade is Grade.DIFFERS
    assert report.causes == (Cause.TRAINING_TRACE, Cause.RANDOM_STREAM)
    assert [finding.causes for finding in report.findings[:2]] == [(Cause.TRAINING_TRACE,), (Cause.RANDOM_STREAM,)]


def test_a_library_of_openg2gs_example_has_no_data_to_compare(tmp_path: Path, replays, monkeypatch) -> None:
    path = Path(shutil.copytree(DATA / "openg2g_library_ieee13", tmp_path / "openg2g"))
    assert {verdict.grade for verdict in validated(path).verdicts} == {Grade.HELD}
    move_the_stream(monkeypatch)
    assert {verdict.causes for verdict in validated(path).verdicts} == {(Cause.RANDOM_STREAM,)}


def test_the_recipe_of_a_build_is_the_one_that_is_read_back(library: Path) -> None:
    (name,) = ScenarioLibrary(library).recipes
    tables = json.loads((library / "metadata.json").read_text())["recipes"][name]
    recipe: Recipe = recipe_from_dict(tables, "test")
    assert recipe.id == name == digest_of(tables)[:12]


@pytest.mark.parametrize(
    ("name", "value"), [("system", "ieee34"), ("v_min", 0.9), ("randomize_ramps", False), ("tvl_base", [])]
)
def test_a_config_that_openg2gs_loader_would_read_otherwise_is_found(library: Path, name: str, value: object) -> None:
    edit_metadata(library, lambda metadata: metadata["config"].update({name: value}))
    report = validated(library)
    assert report.causes == (Cause.EDITED_RECIPE,)
    assert f"metadata.json: config is not what its recipe says ({name}: found {value!r}" in report.findings[0].message
