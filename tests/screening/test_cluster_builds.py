"""Builds on a Dask cluster with two worker processes: the same bytes as here."""

import json
import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import measured_samples
import pytest
from build_commands import content, finish, start, wait_for_candidates

from scenario_lib.execution.options import Cluster, RunOptions
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.learning.evaluation import EvaluationOptions, evaluate
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening import build
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.validation.replay import ReplayOptions
from scenario_lib.validation.validate import validate_library

MADE_UP = ("build", "--system", "ieee13", "--engine", "reference", "--no-report", "--candidates", 6, "--out")


def on_dask(address: str) -> tuple[str, ...]:
    return ("--backend", "dask", "--scheduler", address)


def test_a_feeder_and_specs_that_only_the_parent_has_give_the_same_bytes(
    dask_address: str, village_file: Path, specs_dir: Path, tmp_path: Path, monkeypatch
) -> None:
    own = tmp_path / "own"
    shutil.copytree(village_file.parent, own)
    shutil.copytree(specs_dir, own / "specs")
    experiment = load_experiment(own / "experiment.toml")
    plan = MeasurePlan(experiment, RandomizationSettings(), ScreeningCriteria(), own / "specs")
    request = CandidateRequest(candidates=8)
    here = build_library(plan, request, BuildOptions(tmp_path / "here"))
    assert 0 < len(here.accepted) < 8

    real = build.run_tasks

    def run_tasks(function, tasks, options):
        outcomes = real(function, _after_packing(tasks, own, tmp_path / "hidden"), options)
        yield from outcomes
        (tmp_path / "hidden").rename(own)

    monkeypatch.setattr(build, "run_tasks", run_tasks)
    build_library(plan, request, BuildOptions(tmp_path / "there", cluster=Cluster("dask", dask_address)))
    assert content(tmp_path / "there") == content(tmp_path / "here")


def _after_packing(tasks, folder: Path, hidden: Path):
    folder.rename(hidden)
    yield from tasks


@pytest.mark.parametrize(
    ("measure", "options", "reason"),
    [
        ("measure", (), None),
        ("measure_or_die", (), "worker_died"),
        ("measure_or_loop", ("--timeout", 1), "timeout"),
    ],
)
def test_candidates_that_misbehave_become_the_rows_of_a_local_build(
    dask_address: str, tmp_path: Path, measure: str, options: tuple, reason: str | None
) -> None:
    code = 6 if reason else 0
    finish(start(*MADE_UP, tmp_path / "here", "--jobs", 1, *options, measure=measure), code)
    output, _ = finish(start(*MADE_UP, tmp_path / "there", *on_dask(dask_address), *options, measure=measure), code)
    assert reason is None or f"seed {measured_samples.POISON_SEED}: {reason}" in output
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_a_worker_killed_during_a_build_and_the_parent_after_it(dask_address: str, tmp_path: Path) -> None:
    out = tmp_path / "library"
    command = ("build", "--system", "ieee13", "--no-report", "--candidates", 12, "--out")
    finish(start(*command, tmp_path / "here", "--jobs", 1))
    process = start(*command, out, *on_dask(dask_address))
    wait_for_candidates(process, out, 1)
    os.kill(_a_dask_worker(), signal.SIGKILL)
    wait_for_candidates(process, out, 3)
    process.kill()
    process.communicate()
    finish(start(*command, out, "--resume", *on_dask(dask_address)))
    assert content(out) == content(tmp_path / "here")


def _a_dask_worker() -> int:
    """A worker process, which its nanny started; not the nanny."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            parent_command = Path(f"/proc/{parent}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"spawn_main" in command and b"dask_worker" in parent_command:
            return int(entry.name)
    pytest.skip("looks at processes by way of /proc")


@pytest.mark.parametrize(
    ("options", "exit_code", "text"),
    [
        (
            ("--backend", "dask"),
            2,
            "backend dask needs the address of a scheduler, such as --scheduler tcp://host:8786",
        ),
        (("--scheduler", "tcp://h:1"), 2, "--scheduler is 'tcp://h:1'; expected together with --backend dask or ray"),
        (("--backend", "spark"), 2, "'spark' is not one of 'local', 'dask', 'ray'"),
        (on_dask("nonsense"), 1, "no Dask scheduler answers at nonsense"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_before_any_work(
    tmp_path: Path, options: tuple[str, ...], exit_code: int, text: str
) -> None:
    pytest.importorskip("distributed", reason="needs the extra 'dask'")
    _, errors = finish(start(*MADE_UP, tmp_path / "library", *options), exit_code)
    assert re.sub(r"\s+", " ", errors).count(text) == 1
    assert "Traceback" not in errors
    assert not (tmp_path / ".library.build").exists()


def test_a_library_is_validated_evaluated_and_selected_from_on_a_cluster(
    dask_address: str, compiled_library: ScenarioLibrary, tmp_path: Path
) -> None:
    """Nothing differs from what is said here, and the cluster's workers have done it."""
    there = RunOptions(cluster=Cluster("dask", dask_address))
    here = validate_library(compiled_library.path, ReplayOptions(2))
    assert validate_library(compiled_library.path, ReplayOptions(2, run=there)) == here
    assert here.replayed == 2
    asked = EvaluationOptions(baselines=("none", "ofo"), records=1)
    on_cluster = evaluate(compiled_library, replace(asked, run=there))
    assert on_cluster == evaluate(compiled_library, asked)
    for name, cluster in (("here", ()), ("there", on_dask(dask_address))):
        select = ("select", compiled_library.path, "--min-recovery-frac", 0.5, "--run", "--jobs", 1, "--out")
        finish(start(*select, tmp_path / name, *cluster))
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_a_summary_says_what_ran_where(dask_address: str, tmp_path: Path) -> None:
    _, errors = finish(start(*MADE_UP, tmp_path / "library", "--wait-workers", 1), 2)
    assert "--wait-workers is 1; expected together with --backend dask or ray" in re.sub(r"\s+", " ", errors)
    command = (*MADE_UP, tmp_path / "library", *on_dask(dask_address), "--wait-workers", 2)
    output, errors = finish(start(*command, measure="measure"))
    assert re.search(r"time +[\d.]+ s with [12] worker\(s\) on 1 host\(s\); ", output)
    assert "2 worker(s) on 1 host(s)" in errors
    by_worker = json.loads((tmp_path / "library" / "build-log.json").read_text())["by_worker"]
    assert sum(by_worker.values()) == 6
