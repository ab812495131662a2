"""`diff` and `nightly` as commands; a night is killed for real here."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from library_samples import sample_row, write_rows

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.layout import DIGESTED
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings

NIGHT = ("--night", "2026-03-01", "--jobs", "1")


@pytest.fixture
def two_libraries(tmp_path: Path) -> tuple[Path, Path]:
    recipe = Recipe(load_experiment("ieee13"), RandomizationSettings())
    first = write_rows(tmp_path / "a", [sample_row(7, True), sample_row(1007, True)], recipe)
    second = write_rows(tmp_path / "b", [sample_row(1007, True), sample_row(2007, True)], recipe)
    return first, second


def test_diff_says_what_changed(run, two_libraries: tuple[Path, Path]) -> None:
    seen = run("diff", *two_libraries)
    assert seen.exit_code == 1
    assert "1 kept, 1 lost, 1 gained" in seen.output
    assert "  lost: 7" in seen.output
    assert json.loads(run("diff", *two_libraries, "--json").output)["gained"] == [2007]


def test_diff_of_equal_libraries_is_0_and_of_none_is_2(run, two_libraries: tuple[Path, Path], tmp_path: Path) -> None:
    assert run("diff", two_libraries[0], two_libraries[0]).exit_code == 0
    seen = run("diff", two_libraries[0], tmp_path / "nowhere")
    assert seen.exit_code == 2
    assert "nowhere" in seen.errors


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nightly")
    (folder / "recipe.toml").write_text('system = "ieee13"\n[candidates]\nseeds = [7, 1007, 2007, 3007, 4007, 5007]\n')
    config = folder / "nightly.toml"
    config.write_text('root = "root"\nrecipe = "recipe.toml"\n[replay]\nown = 1\nreference = 0\n')
    return config


def files_of(library: Path) -> dict[str, bytes]:
    return {name: (library / name).read_bytes() for name in DIGESTED}


def kill_when_there_is(file: Path, config: Path) -> None:
    """Start a night, and kill it and its workers at once when a file appears."""
    command = [sys.executable, "-c", "from scenario_lib.pipelines.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "nightly", "--config", str(config), *NIGHT],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not file.is_file():
        assert process.poll() is None, f"ended before there was {file}"
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_night_killed_again_and_again_ends_as_one_that_was_not(config: Path, run) -> None:
    undisturbed = run("nightly", "--config", config, *NIGHT)
    assert undisturbed.exit_code == 0, undisturbed.errors
    report = json.loads(undisturbed.output)
    assert report["outcome"] == "published"
    assert report["accepted"] == len(ScenarioLibrary(config.parent / "root" / "current")) > 0
    expected = files_of(config.parent / "root" / "current")

    text = config.read_text().replace('root = "root"', 'root = "killed"')
    killed = config.with_name("killed.toml")
    killed.write_text(text)
    for moment in ("work/2026-03-01/.library.build/journal.jsonl", "work/2026-03-01/library/metadata.json"):
        kill_when_there_is(config.parent / "killed" / moment, killed)
        assert not (config.parent / "killed" / "current").is_symlink()
    last = run("nightly", "--config", killed, *NIGHT)
    assert last.exit_code == 0, last.errors
    assert files_of(config.parent / "killed" / "current") == expected


def test_a_bad_file_is_one_line_and_starts_nothing(run, tmp_path: Path) -> None:
    config = tmp_path / "nightly.toml"
    config.write_text('root = "root"\nrecipe = "recipe.toml"\nlimit = 1\n')
    seen = run("nightly", "--config", config)
    assert seen.exit_code == 2
    assert "limit: is not known; did you mean" in seen.errors
    assert not (tmp_path / "root").exists()
