"""From measured candidates to a published library; candidates are made up, and run in this process."""

import errno
import json
import os
import random
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import measured_samples
import pyarrow.parquet as pq
import pytest
from scenario_lib.pipelines.build import summary_lines

from scenario_lib.errors import BuildRefusedError, MissingDataError, ReplayError, UnwritableFileError
from scenario_lib.execution.tasks import RunOptions, TaskFailure, TaskOutcome
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening import build as module
from scenario_lib.screening.build import BuildProgress, BuildResult, build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import Reason, ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.engines import Engine

PLAN = MeasurePlan(load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria(), engine=Engine("reference"))
SIX = CandidateRequest(candidates=6)
FILES = ("metadata.json", "traces.npz", "candidates.parquet", "resolved.parquet", "digests.json")


class Stopped(BaseException):
    """Stands for a kill."""


class InThisProcess:
    """In place of `run_tasks`: several tasks are under way at a time and finish in a random order."""

    def __init__(self, shuffle: int = 0, stop_after: int | None = None) -> None:
        self.rng = random.Random(shuffle)
        self.stop_after = stop_after
        self.ran: list[int] = []

    def __call__(self, function, tasks: Iterable[int], options: RunOptions) -> Iterator[TaskOutcome]:
        feed, under_way = iter(tasks), []
        while True:
            while len(under_way) < 3 and (task := next(feed, None)) is not None:
                under_way.append(task)
            if not under_way:
                return
            if len(self.ran) == self.stop_after:
                raise Stopped
            task = under_way.pop(self.rng.randrange(len(under_way)))
            self.ran.append(task)
            yield TaskOutcome(task, function(task), seconds=0.25)


@pytest.fixture
def in_this_process(monkeypatch):
    """Run made-up candidates here; gives the function that sets how."""
    monkeypatch.setattr(module, "measure_candidate", measured_samples.measure)

    def use(**how) -> InThisProcess:
        runner = InThisProcess(**how)
        monkeypatch.setattr(module, "run_tasks", runner)
        return runner

    use()
    return use


def content(library: Path) -> dict[str, bytes]:
    return {name: (library / name).read_bytes() for name in FILES}


def test_a_disk_that_fills_up_stops_a_build_which_then_resumes_to_the_same_bytes(
    in_this_process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = content(build(tmp_path / "whole").path)
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        left = iter([usage.free, usage.free, usage.free, 0])
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=next(left)))
        with pytest.raises(UnwritableFileError, match=r"go on with --resume"):
            build(tmp_path / "library")
    runner = in_this_process()
    assert content(build(tmp_path / "library", resume=True).path) == whole
    assert len(runner.ran) == 3


@pytest.mark.parametrize("place", [".npy", "journal.jsonl", "traces.npz", "metadata.json", "candidates.parquet"])
def test_a_disk_that_is_full_in_the_middle_of_a_write_is_told_with_the_way_on(
    in_this_process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """As a disk that is seen to fill up before."""
    whole = content(build(tmp_path / "whole").path)
    real, tried = os.fsync, []

    def full(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if place in name and not tried:
            tried.append(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UnwritableFileError) as caught:
            build(tmp_path / "library")
    journal = tmp_path / ".library.build"
    assert re.fullmatch(
        rf"\S+: cannot be written \(No space left on device\); make room or permit writing there; what is finished is "
        rf"kept in {journal}: make room, and go on with --resume",
        str(caught.value),
    )
    assert journal.is_dir()
    in_this_process()
    assert content(build(tmp_path / "library", resume=True).path) == whole


@pytest.mark.parametrize("way", [{"candidates": 10**9}, {"accept": 3, "max_candidates": 10**9}])
def test_a_request_of_any_size_starts_at_once(in_this_process, tmp_path: Path, monkeypatch, way: dict) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**18))
    if "accept" in way:
        assert len(build(tmp_path / "library", CandidateRequest(**way)).accepted) == 3
        return
    in_this_process(stop_after=5)
    with pytest.raises(Stopped):
        build(tmp_path / "library", CandidateRequest(**way))


def build(out: Path, request: CandidateRequest = SIX, plan: MeasurePlan = PLAN, **options) -> BuildResult:
    return build_library(plan, request, BuildOptions(out, **options))


def rows_of(library: Path) -> list[dict]:
    return pq.read_table(library / "candidates.parquet").to_pylist()


# --- what comes out


def test_a_build_publishes_a_library_and_leaves_nothing_else(in_this_process, tmp_path: Path) -> None:
    result = build(tmp_path / "library")
    assert result.path == tmp_path / "library"
    assert {path.name for path in result.path.iterdir()} == {*FILES, "build-log.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["library"]
    library = ScenarioLibrary(result.path)
    assert [record.seed for record in library] == [7, 3007]
    assert library.contents.screening == ScreeningCriteria().to_dict()
    assert library.contents.versions["openg2g"] == "0.2.0.post1"
    assert library.contents.reproducible is True
    assert len({library.materialize(record).seed for record in library}) == 2


def test_every_candidate_has_a_row(in_this_process, tmp_path: Path) -> None:
    rows = rows_of(build(tmp_path / "library").path)
    assert [row["seed"] for row in rows] == [7, 1007, 2007, 3007, 4007, 5007]
    reasons = ["accepted", "no_violation", "recovery_below_floor"] * 2
    assert [row["reason"] for row in rows] == reasons
    assert [row["accepted"] for row in rows] == [reason == "accepted" for reason in reasons]
    first, second, third = rows[:3]
    assert (first["kind"], first["recovery_frac"]) == ("under", (10.0 - 1.000007) / 10.0)
    assert (first["t_control_start"], first["t_control_end"]) == (800, 2300)
    assert first["recovery_floor_margin"] == (10.0 - 1.000007) / 10.0 - 0.7
    assert first["baseline_floor_margin"] == 10.0 - 0.2
    assert (second["kind"], second["ofo_ran"], second["ofo_integral"]) == (None, False, None)
    assert (second["t_control_start"], second["baseline_floor_margin"]) == (None, -0.2)
    assert third["ofo_ran"] is True
    assert third["recovery_floor_margin"] == pytest.approx(-0.6)
    assert {row["engine"] for row in rows} == {"reference"}
    assert len({row["recipe"] for row in rows}) == 1


def test_dates_and_durations_are_in_the_build_log_only(in_this_process, tmp_path: Path) -> None:
    log = json.loads((build(tmp_path / "library", jobs=2).path / "build-log.json").read_text())
    assert log["seconds_by_seed"] == {str(seed): 0.25 for seed in (7, 1007, 2007, 3007, 4007, 5007)}
    assert log["jobs"] == 2
    assert log["resumed"] == 0
    assert log["started"] <= log["finished"]
    assert log["machine"]["cpus"] == os.cpu_count()
    digests = json.loads((tmp_path / "library" / "digests.json").read_text())
    assert "build-log.json" not in digests["sha256"]


@pytest.mark.parametrize("shuffle", range(5))
def test_the_order_of_finishing_changes_no_byte(in_this_process, tmp_path: Path, shuffle: int) -> None:
    in_this_process(shuffle=100)
    first = content(build(tmp_path / "first").path)
    runner = in_this_process(shuffle=shuffle)
    assert content(build(tmp_path / "second").path) == first
    assert sorted(runner.ran) == [7, 1007, 2007, 3007, 4007, 5007]


@pytest.mark.parametrize("shuffle", range(8))
@pytest.mark.parametrize(("accept", "last_seed"), [(1, 7), (2, 3007), (3, 6007)])
def test_accepting_a_number_ends_the_table_at_the_same_row(
    in_this_process, tmp_path: Path, shuffle: int, accept: int, last_seed: int
) -> None:
    in_this_process(shuffle=shuffle)
    result = build(tmp_path / "library", CandidateRequest(accept=accept, max_candidates=20))
    rows = rows_of(result.path)
    assert [row["seed"] for row in rows] == list(range(7, last_seed + 1, 1000))
    assert sum(row["accepted"] for row in rows) == accept
    assert result.target_missed is False


def test_a_brake_that_is_reached_is_said(in_this_process, tmp_path: Path) -> None:
    result = build(tmp_path / "library", CandidateRequest(accept=9, max_candidates=5))
    assert result.target_missed is True
    assert [candidate.seed for candidate in result.accepted] == [7, 3007]
    assert len(result.candidates) == 5


def test_the_cap_on_trivial_ones_counts_for_the_number_to_accept(in_this_process, tmp_path: Path, monkeypatch) -> None:
    def trivial(plan, seed):
        candidate, traces = measured_samples.measure(plan, seed)
        return replace(candidate, ofo_always_min=seed <= 6007), traces

    monkeypatch.setattr(module, "measure_candidate", trivial)
    plan = replace(PLAN, criteria=ScreeningCriteria(max_always_min=2))
    result = build(tmp_path / "library", CandidateRequest(accept=3, max_candidates=20), plan)
    assert [candidate.seed for candidate in result.accepted] == [7, 3007, 9007]
    assert rows_of(result.path)[6]["reason"] == "always_min_cap"


def test_progress_counts_candidates_or_accepted(in_this_process, tmp_path: Path) -> None:
    steps: list[BuildProgress] = []
    build_library(PLAN, SIX, BuildOptions(tmp_path / "a"), steps.append)
    assert [step.done for step in steps] == [0, 1, 2, 3, 4, 5, 6]
    assert {step.total for step in steps} == {6}
    assert steps[-1].accepted == 2
    steps.clear()
    build_library(PLAN, CandidateRequest(accept=2), BuildOptions(tmp_path / "b"), steps.append)
    assert (steps[0].done, steps[-1].done, steps[-1].total) == (0, 2, 2)


# --- resuming


@pytest.mark.parametrize("stop_after", [0, 1, 3, 5])
def test_a_stopped_build_resumes_to_the_same_bytes(in_this_process, tmp_path: Path, stop_after: int) -> None:
    whole = content(build(tmp_path / "whole").path)
    in_this_process(stop_after=stop_after)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    assert not (tmp_path / "library").exists()
    runner = in_this_process(shuffle=9)
    result = build(tmp_path / "library", resume=True, jobs=2)
    assert len(runner.ran) == 6 - stop_after
    assert result.log.resumed == stop_after
    assert content(result.path) == whole


def test_a_stopped_build_is_not_resumed_unless_asked(in_this_process, tmp_path: Path) -> None:
    in_this_process(stop_after=2)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    in_this_process()
    with pytest.raises(BuildRefusedError, match=r"continue it with --resume, or discard it with --overwrite"):
        build(tmp_path / "library")
    runner = in_this_process()
    build(tmp_path / "library", overwrite=True)
    assert len(runner.ran) == 6, "discarded and begun again"


def test_resuming_without_an_unfinished_build_begins_one(in_this_process, tmp_path: Path) -> None:
    runner = in_this_process()
    build(tmp_path / "library", resume=True)
    assert len(runner.ran) == 6


def test_more_candidates_may_be_asked_for_on_resuming(in_this_process, tmp_path: Path) -> None:
    whole = content(build(tmp_path / "whole", CandidateRequest(candidates=9)).path)
    in_this_process(stop_after=5)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    in_this_process()
    assert content(build(tmp_path / "library", CandidateRequest(candidates=9), resume=True).path) == whole


def test_fewer_candidates_may_be_asked_for_on_resuming(in_this_process, tmp_path: Path) -> None:
    whole = content(build(tmp_path / "whole", CandidateRequest(candidates=2)).path)
    in_this_process(stop_after=5)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    in_this_process()
    assert content(build(tmp_path / "library", CandidateRequest(candidates=2), resume=True).path) == whole


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"settings": RandomizationSettings(ramp_up_prob=0.5)}, "recipe.randomize_kwargs.ramp_up_prob: found 0.5"),
        (
            {"criteria": ScreeningCriteria(min_recovery_frac=0.5)},
            "screening.min_recovery_frac: found 0.5, expected 0.7",
        ),
        ({"experiment": load_experiment("ieee34")}, "recipe."),
        ({"engine": Engine("compiled")}, "engine: found 'compiled', expected 'reference'"),
        ({"full_table": True}, "full_table: found True, expected False"),
        ({"specs_dir": Path(__file__).parents[1] / "data" / "specs"}, "recipe.data.models: found"),
    ],
)
def test_resuming_under_another_plan_is_refused(
    in_this_process, tmp_path: Path, changes: dict, difference: str
) -> None:
    in_this_process(stop_after=2)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    runner = in_this_process()
    with pytest.raises(BuildRefusedError) as caught:
        build(tmp_path / "library", plan=replace(PLAN, **changes), resume=True)
    assert difference in str(caught.value)
    assert runner.ran == []
    assert len(build(tmp_path / "library", resume=True).candidates) == 6, "nothing was lost"


def test_resuming_with_other_versions_is_refused(in_this_process, tmp_path: Path, monkeypatch) -> None:
    from scenario_lib.screening import build_record as provenance

    in_this_process(stop_after=2)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    in_this_process()
    others = {**provenance.versions(), "numpy": "9.9"}
    monkeypatch.setattr(provenance, "versions", lambda: others)
    with pytest.raises(BuildRefusedError, match=r"versions\.numpy: found '9\.9', expected '2"):
        build(tmp_path / "library", resume=True)


# --- replacing


def test_overwriting_replaces_and_a_failed_build_does_not(in_this_process, tmp_path: Path, monkeypatch) -> None:
    old = content(build(tmp_path / "library", CandidateRequest(candidates=1)).path)
    with pytest.raises(BuildRefusedError, match="exists already"):
        build(tmp_path / "library")
    in_this_process(stop_after=3)
    with pytest.raises(Stopped):
        build(tmp_path / "library", overwrite=True)
    assert content(tmp_path / "library") == old, "still the old one, whole"
    in_this_process()
    result = build(tmp_path / "library", overwrite=True, resume=True)
    assert [record.seed for record in ScenarioLibrary(result.path)] == [7, 3007]
    assert [path.name for path in tmp_path.iterdir()] == ["library"]


def test_an_empty_build_keeps_its_table(in_this_process, tmp_path: Path) -> None:
    result = build(tmp_path / "library", CandidateRequest(seeds=(1007, 2007)))
    assert result.accepted == []
    assert result.kept_existing is False
    assert [row["reason"] for row in rows_of(result.path)] == ["no_violation", "recovery_below_floor"]
    with pytest.raises(ValueError, match="the library is empty"):
        ScenarioLibrary(result.path)


def test_an_empty_build_never_replaces_a_library(in_this_process, tmp_path: Path) -> None:
    old = content(build(tmp_path / "library").path)
    for _ in range(2):
        result = build(tmp_path / "library", CandidateRequest(seeds=(1007, 2007)), overwrite=True)
        assert result.kept_existing is True
        assert result.path == tmp_path / "library.rejected"
        assert len(rows_of(result.path)) == 2
        assert content(tmp_path / "library") == old


def test_what_is_not_a_library_is_left_alone(in_this_process, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "thesis.txt").write_text("mine")
    with pytest.raises(BuildRefusedError, match="is not a library, and is never overwritten"):
        build(tmp_path / "library", overwrite=True)
    assert (tmp_path / "library" / "thesis.txt").read_text() == "mine"


def test_a_link_to_a_library_stays_a_link(in_this_process, tmp_path: Path) -> None:
    build(tmp_path / "real", CandidateRequest(candidates=1))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    build(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert len(rows_of(tmp_path / "real")) == 6


# --- what goes wrong before or during a build


def test_missing_data_stop_a_build_before_it_starts(in_this_process, tmp_path: Path) -> None:
    runner = in_this_process()
    with pytest.raises(MissingDataError, match="no such directory; --specs-dir expects a spec cache"):
        build(tmp_path / "library", plan=replace(PLAN, specs_dir=tmp_path / "absent"))
    assert runner.ran == []
    assert not (tmp_path / "library").exists()
    assert not (tmp_path / ".library.build").exists()


def test_failed_candidates_are_rows_and_the_rest_is_published(in_this_process, tmp_path: Path, monkeypatch) -> None:
    failures = {
        1007: TaskFailure("error", "MemoryError: no memory"),
        2007: TaskFailure("timeout", "took longer than 5 s"),
        5007: TaskFailure("worker_died", "its worker process ended"),
    }

    def run(function, tasks, options):
        for seed in tasks:
            if seed in failures:
                yield TaskOutcome(seed, failure=failures[seed])
            else:
                yield TaskOutcome(seed, function(seed))

    monkeypatch.setattr(module, "run_tasks", run)
    result = build(tmp_path / "library")
    rows = {row["seed"]: row for row in rows_of(result.path)}
    assert {seed: row["reason"] for seed, row in rows.items() if row["failure"]} == {
        1007: "error",
        2007: "timeout",
        5007: "worker_died",
    }
    assert (rows[2007]["failed_stage"], rows[2007]["failure"]) == ("worker", "took longer than 5 s")
    assert [candidate.seed for candidate in result.failed] == [1007, 2007, 5007]
    assert [record.seed for record in ScenarioLibrary(result.path)] == [7, 3007]
    assert ScenarioLibrary(result.path).contents.reproducible is False
    lines = summary_lines(result, 2.0)
    assert lines[0] == (
        "accepted 2 of 6 candidates (2 under); rejected: 1 error, 1 timeout, 1 no_violation, 1 worker_died"
    )
    assert "failed              seed 2007: timeout: took longer than 5 s" in lines


def test_an_error_is_reproducible_a_timeout_is_not(in_this_process, tmp_path: Path, monkeypatch) -> None:
    for code, reproducible in (("error", True), ("timeout", False), ("worker_died", False)):
        monkeypatch.setattr(
            module,
            "run_tasks",
            lambda function, tasks, options, code=code: (
                TaskOutcome(seed, failure=TaskFailure(code, "x")) if seed == 1007 else TaskOutcome(seed, function(seed))
                for seed in tasks
            ),
        )
        path = build(tmp_path / code, CandidateRequest(candidates=2)).path
        assert ScenarioLibrary(path).contents.reproducible is reproducible


def test_a_worker_that_draws_another_scenario_is_noticed(in_this_process, tmp_path: Path, monkeypatch) -> None:
    def otherwise(plan, seed):
        candidate, traces = measured_samples.measure(plan, seed)
        return replace(candidate, scenario_digest="0" * 64), traces

    monkeypatch.setattr(module, "measure_candidate", otherwise)
    with pytest.raises(ReplayError, match="seed 7 draws another scenario here than in its worker"):
        build(tmp_path / "library")
    assert not (tmp_path / "library").exists()


def test_traces_lost_between_measuring_and_publishing_are_noticed(in_this_process, tmp_path: Path, monkeypatch) -> None:
    write = module.write_library

    def late(folder, library, traces):
        shutil.rmtree(folder.with_name(".library.build") / "traces")
        write(folder, library, traces)

    monkeypatch.setattr(module, "write_library", late)
    with pytest.raises(FileNotFoundError):
        build(tmp_path / "library")
    assert not (tmp_path / "library").exists()


def test_the_summary_fits_one_screen(in_this_process, tmp_path: Path) -> None:
    lines = summary_lines(build(tmp_path / "library"), 12.0)
    assert lines[0] == ("accepted 2 of 6 candidates (2 under); rejected: 2 no_violation, 2 recovery_below_floor")
    assert lines[1] == "recovery by OFO     min 0.9, median 0.9, max 0.9"
    assert lines[2] == "baseline integral   min 10, median 10, max 10 pu s"
    assert "12.0 s with 1 worker(s); 0.25 s a candidate in its worker; 2.00 s a candidate in all" in lines[3]
    assert len(lines) == 4
    assert max(len(line) for line in lines) <= 120


def test_many_failures_are_summed_up(in_this_process, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        module,
        "run_tasks",
        lambda function, tasks, options: (
            TaskOutcome(seed, failure=TaskFailure("error", "no memory")) for seed in tasks
        ),
    )
    result = build(tmp_path / "library", CandidateRequest(candidates=8))
    lines = summary_lines(result, 1.0)
    assert lines[-1] == "failed              and 3 more; the candidates table has them all"
    assert sum(line.startswith("failed") for line in lines) == 6
    assert {candidate.reason for candidate in result.candidates} == {Reason.ERROR}


def test_an_engine_that_does_not_model_the_feeder_is_replaced_and_that_is_said(
    in_this_process, tmp_path: Path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(
        module, "prepare", lambda _, __, engine: "a generator 'wind1'" if engine.name == "compiled" else None
    )
    result = build(tmp_path / "library", plan=replace(PLAN, engine=Engine("compiled")))
    notice = "the compiled engine does not model a generator 'wind1'; the reference engine was used"
    assert result.notice == notice
    assert f"engine              {notice}" in summary_lines(result, 1.0)
    assert notice in caplog.text
    assert {row["engine"] for row in rows_of(result.path)} == {"reference"}
    assert content(result.path) == content(build(tmp_path / "asked").path), "as if the reference engine was asked for"
