"""Validation: what holds, what differs and where, and what cannot be told."""

import json
import shutil
from pathlib import Path

import measured_samples
import numpy as np
import pytest
from library_samples import edit_metadata
from scenario_lib.pipelines.cli import main

from scenario_lib.errors import InvalidSettingError, LibraryError
from scenario_lib.execution.tasks import TaskFailure, TaskOutcome
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.npz_store import trace_digest, write_traces
from scenario_lib.library.recipe import located_experiment
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening import build
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.engines import Engine
from scenario_lib.validation import checks as conditions
from scenario_lib.validation import replay
from scenario_lib.validation.findings import Grade
from scenario_lib.validation.replay import ReplayOptions
from scenario_lib.validation.validate import validate_library

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def library(built_library: Path, tmp_path: Path) -> Path:
    """A copy of the real library, to be changed."""
    return Path(shutil.copytree(built_library, tmp_path / "library"))


@pytest.fixture
def openg2g_library(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "openg2g_library_ieee13", tmp_path / "openg2g"))


def messages(path: Path, **options) -> tuple[Grade, list[str]]:
    report = validate_library(path, ReplayOptions(**options))
    assert not any("\n" in finding.message for finding in report.findings)
    return report.grade, [finding.message for finding in report.findings]


def change_trace(path: Path, name: str, index: int, second: int, change: float) -> None:
    """Change one value of a trace, and all digests with it: only a replay can tell."""
    library = ScenarioLibrary(path)
    pairs = [[r.baseline_voltage_pen_per_step.copy(), r.ofo_voltage_pen_per_step.copy()] for r in library]
    pairs[index][("baseline", "ofo").index(name)][second] += change
    write_traces(path / "traces.npz", [tuple(pair) for pair in pairs])

    def correct(metadata: dict) -> None:
        for proof, (baseline, ofo) in zip(metadata["proofs"], pairs, strict=True):
            proof |= {"baseline_digest": trace_digest(baseline), "ofo_digest": trace_digest(ofo)}

    if library.contents.digests:
        edit_metadata(path, correct)


# --- files and draws


def test_an_untouched_library_holds(built_library: Path) -> None:
    report = validate_library(built_library, ReplayOptions())
    assert report.findings == ()
    assert report.grade is Grade.HELD
    assert (report.records, report.replayed) == (2, 0)


def test_edited_metadata_cannot_even_be_opened(library: Path) -> None:
    text = (library / "metadata.json").read_text()
    (library / "metadata.json").write_text(text.replace('"seed":7,', '"seed":8,', 1))
    with pytest.raises(LibraryError, match=r"metadata.json: is not the file that was written"):
        validate_library(library, ReplayOptions())


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("pv_scale", 1.5, "seed 7 cannot be replayed: pv_scale"),
        ("load_scale", 0.6, "seed 7 cannot be replayed: load_scale"),
        ("training_overlay", None, "seed 7 cannot be replayed: training_overlay"),
        ("seed", 8, "seed 8 cannot be replayed"),
    ],
)
def test_an_edited_draw_is_found_although_digests_were_corrected(library: Path, field: str, value, text: str) -> None:
    edit_metadata(library, lambda metadata: metadata["scenarios"][0].update({field: value}))
    grade, found = messages(library)
    assert grade is Grade.DIFFERS
    assert any(text in message for message in found)


def test_an_edited_recipe_is_found_for_every_record(library: Path) -> None:
    def edit(metadata: dict) -> None:
        for tables in metadata["recipes"].values():
            tables["randomize_kwargs"]["pv_scale_max"] = 1.5

    edit_metadata(library, edit)
    grade, found = messages(library)
    assert grade is Grade.DIFFERS
    assert [("params.pv_scale" in message) for message in found] == [False, False, True, True]
    assert "config is not what its recipe says (randomize_kwargs.pv_scale_max" in found[0]
    assert "is not what its identifier says; it was edited" in found[1]


def test_a_flipped_byte_of_a_trace_names_file_and_trace(library: Path) -> None:
    content = bytearray((library / "traces.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (library / "traces.npz").write_bytes(content)
    grade, found = messages(library)
    assert grade is Grade.DIFFERS
    assert found[0] == f"{library / 'traces.npz'}: is not the file that was written (its digest differs)"
    assert len(found) == 2
    assert f"{library / 'traces.npz'}: trace " in found[1]


@pytest.mark.parametrize("name", ["candidates.parquet", "resolved.parquet", "traces.npz"])
def test_a_missing_file_is_named(library: Path, name: str) -> None:
    (library / name).unlink()
    grade, found = messages(library)
    assert grade is Grade.DIFFERS
    assert f"{library / name}: missing" in found


def test_a_table_of_other_candidates_is_found(library: Path) -> None:
    edit_metadata(library, lambda metadata: (metadata["scenarios"].pop(), metadata["proofs"].pop()))
    grade, found = messages(library)
    assert grade is Grade.DIFFERS
    assert f"{library / 'candidates.parquet'}: accepted seeds are not those of metadata.json" in found


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_traces_that_are_not_numbers_are_found(library: Path, number: float) -> None:
    change_trace(library, "ofo", 1, 17, number)
    grade, found = messages(library)
    assert grade is Grade.DIFFERS
    assert found == [f"{library}: a trace of seed 2007 is not 3600 finite numbers"]


def test_short_traces_are_found(openg2g_library: Path) -> None:
    pairs = [(np.zeros(100), np.zeros(100))] * 3
    write_traces(openg2g_library / "traces.npz", pairs)
    grade, found = messages(openg2g_library)
    assert grade is Grade.DIFFERS
    assert f"{openg2g_library}: a trace of seed 7 is not 3600 finite numbers" in found


def test_a_library_without_digests_cannot_be_verified_unless_all_is_replayed(openg2g_library: Path) -> None:
    grade, found = messages(openg2g_library)
    assert grade is Grade.NOT_VERIFIABLE
    text = "has no digests, so only a replay of all records can verify it"
    assert found == [f"{openg2g_library / 'metadata.json'}: {text}"]


def test_an_edited_library_without_digests_differs(openg2g_library: Path) -> None:
    edit_metadata(openg2g_library, lambda metadata: metadata["scenarios"][2].update(load_scale=1.0))
    grade, found = messages(openg2g_library)
    assert grade is Grade.DIFFERS
    assert any("seed 6007 cannot be replayed: load_scale" in message for message in found)


# --- replays, with rollouts made from what is stored


def test_an_equal_replay_holds(library: Path, replays) -> None:
    ran = replays(library)
    assert messages(library, records=None) == (Grade.HELD, [])
    assert sorted(ran) == [7, 2007]


def test_some_records_are_spread_over_the_library(openg2g_library: Path, replays) -> None:
    ran = replays(openg2g_library)
    for count, seeds in ((1, [7]), (2, [7, 6007]), (3, [7, 2007, 6007]), (9, [7, 2007, 6007])):
        ran.clear()
        report = validate_library(openg2g_library, ReplayOptions(records=count))
        assert sorted(ran) == seeds
        assert report.replayed == len(seeds)
        assert report.grade is Grade.NOT_VERIFIABLE


def test_a_library_without_digests_holds_when_all_is_replayed_and_equal(openg2g_library: Path, replays) -> None:
    replays(openg2g_library)
    assert messages(openg2g_library, records=None) == (Grade.HELD, [])


@pytest.mark.parametrize(("amount", "grade"), [(1e-12, Grade.WITHIN_TOLERANCE), (1e-6, Grade.DIFFERS)])
def test_a_replay_that_differs_names_record_trace_and_second(
    library: Path, replays, amount: float, grade: Grade
) -> None:
    replays(library, {1900: amount, 2100: amount / 2})
    found_grade, found = messages(library, records=None)
    assert found_grade is grade
    assert [message.split(" (replayed")[0] for message in found] == [
        "seed 7: the ofo trace first differs at second 1900",
        "seed 2007: the ofo trace first differs at second 1900",
    ]
    assert f"largest difference {amount:.3g} pu^2" in found[0]


@pytest.mark.parametrize(
    "field", ["baseline_integral", "ofo_integral", "ofo_violation_time_s", "bl_overvoltage_time_s", "recovery_frac"]
)
def test_an_edited_figure_is_found_by_a_replay(openg2g_library: Path, replays, tmp_path: Path, field: str) -> None:
    original = Path(shutil.copytree(openg2g_library, tmp_path / "original"))
    edit_metadata(openg2g_library, lambda m: m["scenarios"][1].update({field: m["scenarios"][1][field] * 0.99 + 0.001}))
    replays(openg2g_library, of=original)
    grade, found = messages(openg2g_library, records=None)
    assert grade is Grade.DIFFERS
    assert len(found) == 1
    assert found[0].startswith(f"seed 2007: {field} is ")


def test_other_specs_are_named_as_the_likely_cause(library: Path, replays) -> None:
    replays(library, {1900: 1e-3})
    grade, found = messages(library, records=1, specs_dir=DATA / "specs")
    assert grade is Grade.DIFFERS
    note = "power traces or fits are not those that the library was built on; is --specs-dir right?"
    assert found[0] == note
    assert "seed 7: the ofo trace first differs at second 1900" in found[1]


def test_other_versions_are_named_as_the_likely_cause(library: Path, replays, monkeypatch) -> None:
    replays(library, {1900: 1e-13})
    monkeypatch.setattr(conditions, "versions", lambda: {**ScenarioLibrary(library).contents.versions, "numpy": "9.9"})
    grade, found = messages(library, records=1)
    assert grade is Grade.WITHIN_TOLERANCE
    assert found[0].startswith(f"{library}: versions are not those that built it (numpy: found '9.9', expected '")


def test_rollouts_of_scenarios_that_differ_are_not_run(library: Path, replays) -> None:
    ran = replays(library)
    (library / "traces.npz").unlink()
    report = validate_library(library, ReplayOptions(records=None))
    assert report.grade is Grade.DIFFERS
    assert (report.replayed, ran) == (0, [])


@pytest.mark.parametrize(
    ("failure", "grade"),
    [
        (TaskFailure("error", "PowerFlowError: the power flow did not converge"), Grade.DIFFERS),
        (TaskFailure("timeout", "took longer than 1 s"), Grade.NOT_VERIFIABLE),
        (TaskFailure("worker_died", "its worker process ended"), Grade.NOT_VERIFIABLE),
    ],
)
def test_a_replay_that_fails_is_said(library: Path, monkeypatch, failure: TaskFailure, grade: Grade) -> None:
    monkeypatch.setattr(
        replay, "run_tasks", lambda function, tasks, options: [TaskOutcome(t, failure=failure) for t in tasks]
    )
    found_grade, found = messages(library, records=1)
    assert found_grade is grade
    assert found == [f"{library}: replay of seed 7 failed: {failure.message}"]


def test_a_feeder_of_the_users_own_has_to_be_given(village, village_file: Path, replays, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(build, "measure_candidate", measured_samples.measure)
    plan = MeasurePlan(village, RandomizationSettings(), ScreeningCriteria(), engine=Engine("reference"))
    path = build_library(plan, CandidateRequest(candidates=1), BuildOptions(tmp_path / "library")).path
    assert messages(path) == (Grade.HELD, []), "draws need no file"
    ran = replays(path)
    with pytest.raises(
        InvalidSettingError, match="is on feeder 'village', which does not ship; give its file as --system"
    ):
        validate_library(path, ReplayOptions(records=1))
    assert ran == []
    validate_library(path, ReplayOptions(records=1, system=str(village_file)))
    assert ran == [7]


def test_a_library_cannot_name_a_file_as_its_feeder(library: Path) -> None:
    def edit(metadata: dict) -> None:
        for tables in metadata["recipes"].values():
            tables["experiment"]["feeder"]["name"] = name

    name = "/tmp/elsewhere/experiment.toml"
    edit_metadata(library, edit)
    with pytest.raises(LibraryError, match="feeder name is '/tmp/elsewhere/experiment.toml'; expected a name"):
        ScenarioLibrary(library)
    name = "elsewhere/experiment.toml"
    edit_metadata(library, edit)
    assert messages(library, records=1)[0] is Grade.DIFFERS
    (recipe,) = ScenarioLibrary(library).recipes.values()
    with pytest.raises(InvalidSettingError, match="does not ship"):
        located_experiment(recipe)


# --- replays for real


def test_a_real_replay_is_equal_bit_for_bit_but_where_a_value_was_changed(library: Path, capsys) -> None:
    change_trace(library, "ofo", 1, 1900, 1e-9)
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(library), "--replay", "all", "--jobs", "2"])
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("differs: seed 2007: the ofo trace first differs at second 1900 (replayed ")
    assert lines[0].endswith("largest difference 1e-09 pu^2")
    assert lines[1] == "likely cause: an edited record"
    assert lines[2] == f"DIFFERS - {library}: 2 records drawn again, 2 replayed; 1 identical, 1 different"
    assert len(lines) == 3, "everything else is equal, seed 7 in both traces"


def test_the_library_of_openg2gs_example_replays_on_its_own_specs(capsys) -> None:
    path = str(DATA / "openg2g_library_ieee13")
    with pytest.raises(SystemExit) as ended:
        main(["validate", path])
    assert ended.value.code == 3
    with pytest.raises(SystemExit) as ended:
        main(["validate", path, "--replay", "all", "--specs-dir", str(DATA / "specs"), "--jobs", "2", "--json"])
    output = capsys.readouterr().out
    report = json.loads(output[output.index("{") :])
    assert report["findings"] == [] or {finding["grade"] for finding in report["findings"]} == {"within_tolerance"}
    assert ended.value.code in (0, 4), "4 on a processor with other vector instructions"
    assert report["replayed"] == 3
