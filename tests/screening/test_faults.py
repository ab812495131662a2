"""Builds on disks that fill up or turn read-only, from folders that change, and killed at random moments.

`kill_rounds.py` kills any number of builds; here are a few.
"""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import measured_samples
import numpy as np
import pytest
from build_commands import content
from kill_rounds import Build, kill_round
from scenario_lib.pipelines.cli import main

from scenario_lib.execution.tasks import RunOptions, TaskOutcome
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening import build as module
from scenario_lib.screening import journal as workspace
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import Engine
from scenario_lib.validation.replay import ReplayOptions
from scenario_lib.validation.validate import validate_library

COMMAND = (
    "build",
    "--system",
    "ieee13",
    "--engine",
    "reference",
    "--no-report",
    "--candidates",
    "6",
    "--jobs",
    "1",
    "--out",
)
PLAN = MeasurePlan(load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria(), engine=Engine("reference"))
_KB = 1024


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch) -> None:
    """Candidates are made up, and in the process that writes."""

    def run_tasks(function, tasks: Iterable[int], options: RunOptions) -> Iterator[TaskOutcome]:
        for task in tasks:
            yield TaskOutcome(task, function(task), seconds=0.25)

    monkeypatch.setattr(module, "measure_candidate", measured_samples.measure)
    monkeypatch.setattr(module, "run_tasks", run_tasks)
    for size in ("_BYTES_PER_CANDIDATE", "_BYTES_PER_RECORD"):  # or a small disk is refused before the first write
        monkeypatch.setattr(workspace, size, 0)


def ended_with(arguments: Iterable[object]) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def assert_refused_in_one_line(capsys: pytest.CaptureFixture[str], *reasons: int) -> None:
    errors = capsys.readouterr().err
    assert any(os.strerror(reason) in errors for reason in reasons), errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("seed", [1, 2])
def test_a_build_killed_at_a_random_moment_resumes_to_the_same_bytes(
    built_files: dict[str, bytes], tmp_path: Path, seed: int
) -> None:
    build = Build(candidates=6, measure="measure_in_odd_order", engine="reference")
    kill_round(build, tmp_path / "library", np.random.default_rng(seed))
    assert content(tmp_path / "library") == built_files


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """A write beyond this size fails, as it does on a full disk, whoever makes it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_fails_anywhere_loses_nothing(built_files: dict[str, bytes], tmp_path: Path, capsys) -> None:
    """The limit rises from nothing to what the longest file needs, so that each file's writes fail in turn."""
    out, failed = tmp_path / "library", 0
    for size in _sizes_up_to(max(map(len, built_files.values()))):
        with files_no_longer_than(size):
            code = ended_with((*COMMAND, out, "--resume"))
        if code == 0:
            break
        assert code == 1
        assert_refused_in_one_line(capsys, errno.EFBIG)
        assert not out.exists()
        failed += 1
    assert failed > 20
    assert content(out) == built_files


def _sizes_up_to(longest: int) -> Iterator[int]:
    """Small steps where the small files end, larger ones after."""
    yield from range(0, 8 * _KB, 512)
    yield from range(8 * _KB, longest + 16 * _KB, 8 * _KB)


@pytest.fixture
def built_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("built") / "library"
    assert ended_with((*COMMAND, out)) == 0
    return content(out)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of this many bytes; only root may mount one."""
    folder.mkdir()
    if not _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        pytest.skip("cannot mount a file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _mount(*options: str) -> bool:
    try:
        return subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_a_full_disk_at_any_time_loses_nothing(built_files: dict[str, bytes], tmp_path: Path, capsys) -> None:
    failed = 0
    with small_disk(tmp_path / "disk", 4 * _KB) as disk:
        for size in range(4 * _KB, 2000 * _KB, 24 * _KB):
            assert _mount("-o", f"remount,size={size}", str(disk))
            code = ended_with((*COMMAND, disk / "library", "--resume"))
            if code == 0:
                break
            assert code == 1
            assert_refused_in_one_line(capsys, errno.ENOSPC)
            failed += 1
        assert failed > 5
        assert content(disk / "library") == built_files


def test_a_disk_that_turns_read_only_between_two_runs(
    built_files: dict[str, bytes], tmp_path: Path, capsys, monkeypatch
) -> None:
    def interrupt(plan: MeasurePlan, seed: int):
        if seed == measured_samples.POISON_SEED:
            raise KeyboardInterrupt
        return measured_samples.measure(plan, seed)

    with small_disk(tmp_path / "disk", 8000 * _KB) as disk:
        monkeypatch.setattr(module, "measure_candidate", interrupt)
        assert ended_with((*COMMAND, disk / "library")) == 130
        assert _mount("-o", "remount,ro", str(disk))
        assert ended_with((*COMMAND, disk / "library", "--resume")) == 1
        errors = capsys.readouterr().err
        assert "cannot write beside it (Read-only file system" in errors
        assert "Traceback" not in errors
        assert _mount("-o", "remount,rw", str(disk))
        monkeypatch.setattr(module, "measure_candidate", measured_samples.measure)
        assert ended_with((*COMMAND, disk / "library", "--resume")) == 0
        assert content(disk / "library") == built_files


def test_a_working_directory_that_changes_during_a_build(
    built_files: dict[str, bytes], tmp_path: Path, specs_dir: Path, village_file: Path, monkeypatch
) -> None:
    """Relative paths are those of the start, for what is read as for what is written."""
    shutil.copytree(village_file.parent, tmp_path / "home" / "village")
    shutil.copytree(specs_dir, tmp_path / "home" / "specs")
    (tmp_path / "elsewhere").mkdir()
    request = CandidateRequest(candidates=6)
    expected = None

    def measure(plan: MeasurePlan, seed: int):
        load_assets(plan.experiment, plan.specs_dir)  # as real candidates do
        return measured_samples.measure(plan, seed)

    monkeypatch.setattr(module, "measure_candidate", measure)
    for name in ("still", "moved"):
        monkeypatch.chdir(tmp_path / "home")
        experiment = load_experiment(Path("village") / village_file.name)
        plan = MeasurePlan(experiment, RandomizationSettings(), ScreeningCriteria(), Path("specs"))
        build_library(
            plan,
            request,
            BuildOptions(Path(name)),
            (lambda _: os.chdir(tmp_path / "elsewhere")) if name == "moved" else (lambda _: None),
        )
        monkeypatch.chdir(Path(__file__).parents[2])
        assert content(tmp_path / "home" / name) == (expected or content(tmp_path / "home" / name))
        expected = content(tmp_path / "home" / name)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_library_that_is_copied_or_moved_is_the_same(built_library: Path, tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(built_library, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    library = ScenarioLibrary("moved")
    monkeypatch.chdir("/")
    original = ScenarioLibrary(built_library)
    for record, same in zip(original, library, strict=True):
        assert library.materialize(same) == original.materialize(record)
        assert np.array_equal(same.ofo_voltage_pen_per_step, record.ofo_voltage_pen_per_step)
    monkeypatch.chdir(tmp_path)
    assert validate_library(Path("moved"), ReplayOptions()).findings == ()
    monkeypatch.chdir(Path(__file__).parents[2])
