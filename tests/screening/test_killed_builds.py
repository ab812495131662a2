"""Whole builds in real processes, disturbed in every way: whatever happens, the same library or none.

Candidates are simulated in the first tests and made up in the others, which are about processes.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import measured_samples
import pyarrow.parquet as pq
import pytest
from build_commands import content, finish, finished_candidates, start, wait_for_candidates
from scenario_lib.pipelines.cli import main
from worker_processes import is_running, workers_of

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening import build
from scenario_lib.screening.build import build_library
from scenario_lib.screening.build_record import plan_record, recipe_of
from scenario_lib.screening.candidate import MeasurePlan, measure_candidate
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.engines import Engine

BUILD = ("build", "--system", "ieee13", "--engine", "reference", "--no-report", "--seeds", "7,1007,2007,3007", "--out")
PLAN = MeasurePlan(load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria(), engine=Engine("reference"))
MADE_UP = ("build", "--system", "ieee13", "--engine", "reference", "--no-report", "--candidates", "6", "--out")


def reasons(library: Path) -> list[str]:
    return pq.read_table(library / "candidates.parquet").column("reason").to_pylist()


# --- simulated candidates


def test_the_undisturbed_build_accepts_the_seeds_that_openg2gs_example_accepts(built_library: Path) -> None:
    """With the shipped traces as with those of the example; figures differ, verdicts do not."""
    assert [record.seed for record in ScenarioLibrary(built_library)] == [7, 2007]
    assert reasons(built_library) == ["accepted", "baseline_below_floor", "accepted", "no_violation"]


def test_two_workers_give_the_bytes_of_one(tmp_path: Path) -> None:
    """On the compiled engine; the reference engine has a worker killed on top, below."""
    command = ("build", "--system", "ieee13", "--candidates", 12, "--engine", "compiled", "--no-report", "--out")
    for jobs in (1, 2):
        output, _ = finish(start(*command, tmp_path / str(jobs), "--jobs", jobs))
        assert "accepted 5 of 12 candidates (5 under)" in output
    assert content(tmp_path / "1") == content(tmp_path / "2")
    assert [record.seed for record in ScenarioLibrary(tmp_path / "1")][:2] == [7, 2007]


def test_a_worker_killed_in_the_middle_of_a_candidate_changes_no_byte(built_library: Path, tmp_path: Path) -> None:
    process = start(*BUILD, tmp_path / "library", "--jobs", 2)
    wait_for_candidates(process, tmp_path / "library", 1)
    victim = workers_of(process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    assert finished_candidates(tmp_path / "library") <= 2, "two workers were busy with candidates"
    finish(process)
    assert not is_running(victim)
    assert content(tmp_path / "library") == content(built_library)


def test_a_build_killed_half_way_resumes_to_the_same_bytes(built_library: Path, tmp_path: Path) -> None:
    out = tmp_path / "library"
    process = start(*BUILD, out, "--jobs", 2)
    wait_for_candidates(process, out, 1)
    process.kill()
    finish(process, -signal.SIGKILL)
    kept = finished_candidates(out)
    assert 1 <= kept < 4
    assert not out.exists()
    _, errors = finish(start(*BUILD, out), 1)
    assert "an unfinished build is there; continue it with --resume, or discard it with --overwrite" in errors
    finish(start(*BUILD, out, "--jobs", 1, "--resume"))
    assert content(out) == content(built_library)
    assert json.loads((out / "build-log.json").read_text())["resumed"] == kept


def test_a_candidate_alone_equals_the_same_one_after_others(built_library: Path) -> None:
    alone, traces = measure_candidate(PLAN, 2007)
    record = ScenarioLibrary(built_library).record_for(2007)
    assert alone.baseline.integral_pu_s == record.baseline_integral
    assert alone.ofo.integral_pu_s == record.ofo_integral
    assert traces[0].tobytes() == record.baseline_voltage_pen_per_step.tobytes()
    assert traces[1].tobytes() == record.ofo_voltage_pen_per_step.tobytes()


# --- made-up candidates


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The library of six made-up candidates, undisturbed."""
    out = tmp_path_factory.mktemp("made-up") / "library"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "measure_candidate", measured_samples.measure)
        build_library(PLAN, CandidateRequest(candidates=6), BuildOptions(out))
    assert reasons(out) == ["accepted", "no_violation", "recovery_below_floor"] * 2
    return content(out)


def test_accepting_a_number_gives_the_same_bytes_with_any_workers(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(build, "measure_candidate", measured_samples.measure_in_odd_order)
    for jobs in (1, 2, 3):
        build_library(PLAN, CandidateRequest(accept=2, max_candidates=12), BuildOptions(tmp_path / str(jobs), jobs))
    assert content(tmp_path / "1") == content(tmp_path / "2") == content(tmp_path / "3")
    assert reasons(tmp_path / "1") == ["accepted", "no_violation", "recovery_below_floor", "accepted"]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("measure", "options", "reason", "message", "reproducible"),
    [
        ("measure_or_raise", (), "error", "MemoryError: out of memory, say", True),
        ("measure_or_loop", ("--timeout", "1"), "timeout", "took longer than 1 s", False),
        ("measure_or_die", (), "worker_died", "its worker process ended without a result, twice", False),
    ],
)
def test_a_candidate_that_misbehaves_is_a_row_and_the_rest_unharmed(
    made_up: dict, tmp_path: Path, monkeypatch, capsys, jobs: int, measure, options, reason, message, reproducible
) -> None:
    out = tmp_path / "library"
    monkeypatch.setattr(build, "measure_candidate", getattr(measured_samples, measure))
    with pytest.raises(SystemExit) as ended:
        main([*MADE_UP, str(out), "--jobs", str(jobs), *options])
    assert ended.value.code == 6
    output, errors = capsys.readouterr()
    assert f"seed 2007: {reason}: {message}" in output
    assert "Traceback" not in errors
    assert reasons(out) == ["accepted", "no_violation", reason, "accepted", "no_violation", "recovery_below_floor"]
    library = ScenarioLibrary(out)
    assert library.contents.reproducible is reproducible
    assert (out / "traces.npz").read_bytes() == made_up["traces.npz"]
    failed = library.candidates.to_pylist()[2]
    assert failed["failure"].startswith(message)
    assert failed["baseline_integral"] is None


@pytest.fixture
def waiting(tmp_path: Path):
    """Start a build that finishes two candidates and then waits; gives the process."""

    def begin(jobs: int) -> subprocess.Popen:
        out, told = tmp_path / "library", tmp_path / "told"
        process = start(*MADE_UP, out, "--jobs", jobs, measure="measure_until_told", wait_for=told)
        wait_for_candidates(process, out, 2)
        return process

    return begin


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_leaves_what_is_finished_and_resuming_completes_it(
    made_up: dict, tmp_path: Path, waiting, jobs: int
) -> None:
    process = waiting(jobs)
    workers = workers_of(process.pid)
    assert len(workers) == jobs
    process.send_signal(signal.SIGINT)
    _, errors = finish(process, 130, timeout_s=30)
    assert "interrupted; what is finished is kept: the same command with --resume goes on" in errors
    assert "Traceback" not in errors
    assert not any(is_running(worker) for worker in workers)
    assert not (tmp_path / "library").exists()
    assert finished_candidates(tmp_path / "library") == 2
    finish(start(*MADE_UP, tmp_path / "library", "--jobs", 3 - jobs, "--resume", measure="measure"))
    assert content(tmp_path / "library") == made_up


def test_ctrl_c_to_the_whole_group_as_a_terminal_sends_it(made_up: dict, tmp_path: Path, waiting) -> None:
    process = waiting(2)
    for target in (*workers_of(process.pid), process.pid):
        os.kill(target, signal.SIGINT)
    finish(process, 130, timeout_s=30)
    finish(start(*MADE_UP, tmp_path / "library", "--resume", "--jobs", 1, measure="measure"))
    assert content(tmp_path / "library") == made_up


def test_a_second_build_into_one_directory_is_refused(made_up: dict, tmp_path: Path, waiting) -> None:
    first = waiting(2)
    for options in ((), ("--resume",), ("--overwrite",)):
        _, errors = finish(start(*MADE_UP, tmp_path / "library", *options, measure="measure"), 1)
        assert errors.splitlines()[-1].endswith("another build is writing there; wait for it, or choose another --out")
    (tmp_path / "told").touch()
    finish(first)
    assert content(tmp_path / "library") == made_up


def test_a_worker_killed_and_the_parent_killed_and_resumed(made_up: dict, tmp_path: Path, waiting) -> None:
    """Both at once, and a torn last line and a lost trace on top."""
    process = waiting(2)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    process.kill()
    finish(process, -signal.SIGKILL)
    journal = tmp_path / ".library.build"
    with (journal / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"measured":{"seed":50')
    (journal / "traces" / "7.npy").unlink()
    finish(start(*MADE_UP, tmp_path / "library", "--resume", "--jobs", 2, measure="measure"))
    assert content(tmp_path / "library") == made_up
    assert json.loads((tmp_path / "library" / "build-log.json").read_text())["resumed"] == 1


def test_the_plan_of_a_build_is_what_decides_its_figures() -> None:
    record = plan_record(PLAN, recipe_of(PLAN))
    assert set(record) == {"recipe", "screening", "full_table", "engine", "versions"}
    assert {"scenario_lib", "numpy", "openg2g", "opendss"} <= set(record["versions"])
    assert set(record["recipe"]["data"]) == {"circuit", "models", "training_trace", "training_trace_params"}
