"""`scenario-lib build`: options win over the recipe, and the exit code says how it went. Candidates are made up."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scenario_lib.pipelines import build as command
from scenario_lib.pipelines import console

from scenario_lib._parsing import data_dir
from scenario_lib.execution.tasks import TaskFailure, TaskOutcome
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening import build
from scenario_lib.screening.build import BuildResult
from scenario_lib.screening.candidate import Candidate, MeasuredCandidate, MeasurePlan
from scenario_lib.screening.recipe_file import parse_strata, read_recipe_tables, unread_settings
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.screening.select import Stratum

FAILING_SEED, QUIET_SEED = 3007, 1007


def accepted(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
    drawn = (seed, scenario_digest(scenario), scenario.params.pv_scale, scenario.params.load_scale)
    if seed == QUIET_SEED:
        return Candidate(*drawn, VoltageMeasures(0.0, 0.0, 0.0, 0.0, 0.97, 1.01)), None
    figures = [VoltageMeasures(integral, 90.0, 90.0, 0.0, 0.93, 1.01) for integral in (10.0, 1.0)]
    return Candidate(*drawn, *figures, False, 1000, 2000), np.ones((2, 3600))


def run_tasks(function, tasks, _options):
    for seed in tasks:
        if seed == FAILING_SEED:
            yield TaskOutcome(seed, failure=TaskFailure("timeout", "took longer than 1 s"))
        else:
            yield TaskOutcome(seed, function(seed))


@pytest.fixture(autouse=True)
def made_up(monkeypatch) -> None:
    monkeypatch.setattr(build, "measure_candidate", accepted)
    monkeypatch.setattr(build, "run_tasks", run_tasks)


@pytest.fixture
def asked(monkeypatch) -> dict:
    """What the command asks `build_strata` for."""
    seen = {}
    original = command.build_strata

    def spy(strata: list[Stratum], options: BuildOptions, hook) -> BuildResult:
        seen.update(plan=strata[0].plan, request=strata[0].request, options=options)
        return original(strata, options, hook)

    monkeypatch.setattr(command, "build_strata", spy)
    return seen


BUILD = ("build", "--system", "ieee13", "--engine", "reference", "--no-report")


def test_a_build_ends_with_a_summary_of_one_screen(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_AT_FIRST_PROGRESS_S", 0.0)  # this build is over before a bar would appear
    seen = run(*BUILD, "--candidates", 3, "--out", tmp_path / "library")
    assert seen.exit_code == 0
    lines = seen.output.splitlines()
    assert lines[0] == "accepted 2 of 3 candidates (2 under); rejected: 1 no_violation"
    assert lines[-1] == f"library             {tmp_path / 'library'}"
    assert len(lines) <= 24
    assert seen.errors == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_drawn_on_terminals_only(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(console.sys, "stderr", stream)
    monkeypatch.setattr(console, "_AT_FIRST_PROGRESS_S", 0.0)
    with console.progress_bar(unit="candidate", total=3) as bar:
        bar.update(3)
    assert ("3/3" in stream.getvalue()) is terminal


def test_a_refused_build_shows_no_progress(run, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    seen = run(*BUILD, "--seeds", 7, "--out", tmp_path / "library")
    assert seen.exit_code == 1
    assert seen.errors.startswith("Error: ")
    assert "exists already" in seen.errors
    assert seen.errors.count("\n") == 1


def test_nothing_accepted_exits_5_and_keeps_the_table(run, tmp_path: Path) -> None:
    seen = run(*BUILD, "--seeds", 1007, "--out", tmp_path / "library")
    assert seen.exit_code == 5
    table = tmp_path / "library" / "candidates.parquet"
    assert f"nothing was accepted; {table} says why, and how far voltages went" in seen.errors
    assert pq.read_table(table)["baseline_worst_v_min_pu"][0].as_py() > 0.9


def test_nothing_accepted_over_a_library_says_that_it_is_untouched(run, tmp_path: Path) -> None:
    run(*BUILD, "--seeds", 7, "--out", tmp_path / "library")
    seen = run(*BUILD, "--seeds", 1007, "--out", tmp_path / "library", "--overwrite")
    assert seen.exit_code == 5
    assert f"{tmp_path / 'library.rejected' / 'candidates.parquet'} says why" in seen.errors
    assert "; the library that was there is untouched" in seen.errors
    assert run("info", tmp_path / "library").exit_code == 0


def test_failed_candidates_exit_6(run, tmp_path: Path) -> None:
    seen = run(*BUILD, "--seeds", "7,3007", "--out", tmp_path / "library")
    assert seen.exit_code == 6
    assert "failed              seed 3007: timeout: took longer than 1 s" in seen.output
    assert "not reproducible" in run("info", tmp_path / "library").output


def test_a_reached_brake_exits_7(run, tmp_path: Path) -> None:
    seen = run(*BUILD, "--accept", 5, "--max-candidates", 3, "--out", tmp_path / "library")
    assert seen.exit_code == 7
    assert "fewer were accepted than asked for: 2 of 5; the brake (--max-candidates) was reached" in seen.errors


def test_an_existing_library_exits_1_with_the_remedy(run, tmp_path: Path) -> None:
    run(*BUILD, "--seeds", 7, "--out", tmp_path / "library")
    seen = run(*BUILD, "--seeds", 7, "--out", tmp_path / "library")
    assert seen.exit_code == 1
    assert seen.errors.splitlines()[-1].endswith(
        f"Error: {tmp_path / 'library'}: exists already; replace it with --overwrite, or choose another --out"
    )
    assert run(*BUILD, "--seeds", 7, "--out", tmp_path / "library", "--overwrite").exit_code == 0


def test_an_interrupt_exits_130_and_names_the_option_that_goes_on(run, tmp_path: Path, monkeypatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "build_strata", interrupted)
    seen = run(*BUILD, "--seeds", 7, "--out", tmp_path / "library")
    assert seen.exit_code == 130
    assert f"the same command with --resume goes on ({tmp_path / 'library'})" in seen.errors


RECIPE = """
system = "ieee34"
overlay = false
[candidates]
accept = 200
max_candidates = 5000
[randomization]
ramp_up_prob = 0.1
[screening]
min_recovery_frac = 0.5
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path / "recipe.toml"


def test_a_recipe_is_followed(run, asked: dict, recipe: Path, tmp_path: Path) -> None:
    seen = run(
        *("build", "--config", recipe, "--max-candidates", 3, "--out", tmp_path / "library"),
        *("--engine", "reference", "--no-report"),
    )
    assert seen.exit_code == 7
    plan = asked["plan"]
    assert plan.experiment.name == "ieee34"
    assert plan.settings.ramp_up_prob == 0.1
    assert plan.settings.randomize_ramps is False
    assert plan.criteria.min_recovery_frac == 0.5
    assert asked["request"] == CandidateRequest(accept=200, max_candidates=3)


def test_options_win_over_the_recipe(run, asked: dict, recipe: Path, tmp_path: Path, specs_dir: Path) -> None:
    seen = run(
        *("build", "--config", recipe, "--system", "ieee13", "--overlay", "--seeds", "2007,7"),
        *("--set", "ramp_up_prob=0.4", "--set", "min_recovery_frac=0.6", "--set", 'pv_shape_choices=["flat"]'),
        *("--specs-dir", specs_dir, "--jobs", 1, "--timeout", 30, "--full-table", "--engine", "reference"),
        *("--out", tmp_path / "library", "--no-report"),
    )
    assert seen.exit_code == 0, seen.errors
    plan: MeasurePlan = asked["plan"]
    assert plan.experiment.name == "ieee13"
    assert plan.experiment.overlay is not None
    assert (plan.settings.ramp_up_prob, plan.settings.pv_shape_choices) == (0.4, ("flat",))
    assert plan.criteria.min_recovery_frac == 0.6
    assert (plan.specs_dir, plan.full_table, plan.engine.label) == (specs_dir, True, "reference")
    assert asked["request"] == CandidateRequest(seeds=(2007, 7))
    assert asked["options"] == BuildOptions(tmp_path / "library", jobs=1, timeout_s=30.0)


def test_settings_that_no_draw_reads_are_noticed(run, asked: dict, recipe: Path, tmp_path: Path) -> None:
    """The recipe's feeder draws no ramps by default; on the command line, a setting of the narrow profile."""
    seen = run("build", "--config", recipe, "--set", "ramp_frac_min=0.2", "--out", tmp_path / "library", "--no-report")
    assert "plan" in asked
    assert seen.errors.count("no draw reads it") == 2
    assert (
        "notice: randomization: ramp_up_prob is given, but no draw reads it; it would have an effect with "
        "randomize_ramps = true\n"
    ) in seen.errors
    assert "ramp_frac_min is given, but no draw reads it; it would have an effect with randomization" in seen.errors


@pytest.mark.parametrize("name", ["ieee13", "ieee34", "ieee123", "ieee13_mixture"])
def test_shipped_recipes_give_nothing_that_is_not_read(name: str) -> None:
    path = data_dir() / "recipes" / f"{name}.toml"
    assert unread_settings(parse_strata(read_recipe_tables(path), str(path))) == []


@pytest.mark.parametrize("system", ["ieee34", "ieee123"])
def test_an_overlay_where_the_experiment_has_none_is_refused(run, asked: dict, system: str, tmp_path: Path) -> None:
    seen = run("build", "--system", system, "--overlay", "--seeds", 7, "--out", tmp_path / "library")
    assert seen.exit_code == 2
    assert f"Error: --overlay: the experiment {system} has no training overlay; leave the option away" in seen.errors
    assert asked == {}
    assert list(tmp_path.iterdir()) == []


def test_without_overlay(run, asked: dict, tmp_path: Path) -> None:
    run(*BUILD, "--no-overlay", "--seeds", 7, "--out", tmp_path / "library")
    assert asked["plan"].experiment.overlay is None


def test_all_cores_unless_told_otherwise(run, asked: dict, tmp_path: Path) -> None:
    import os

    run(*BUILD, "--seeds", 7, "--out", tmp_path / "library")
    assert asked["options"].jobs == len(os.sched_getaffinity(0))


def test_a_fault_of_the_recipe_names_the_file_a_fault_of_an_option_the_command_line(run, recipe, tmp_path) -> None:
    option = run("build", "--config", recipe, "--set", "ramp_up_prob=7", "--out", tmp_path / "library")
    assert option.exit_code == 2
    assert "Error: command line: randomization: ramp_up_prob is 7; expected between 0 and 1" in option.errors
    recipe.write_text(RECIPE.replace("0.1", "7"))
    file = run("build", "--config", recipe, "--set", "ramp_up_prob=0.2", "--out", tmp_path / "library")
    assert file.exit_code == 1
    assert f"Error: {recipe}: randomization: ramp_up_prob is 7; expected between 0 and 1" in file.errors


def test_a_users_own_feeder_is_built_on(run, asked: dict, village_file: Path, tmp_path: Path) -> None:
    seen = run("build", "--system", village_file, "--seeds", 7, "--out", tmp_path / "library", "--no-report")
    assert seen.exit_code == 0, seen.errors
    assert asked["plan"].experiment.name == "village"
    assert "1 on village" in run("info", tmp_path / "library").output


@pytest.mark.parametrize("command", ["build", "show"])
def test_a_shipped_recipe_is_found_by_its_name(run, tmp_path: Path, monkeypatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {"build": ["--accept", 0, "--out", tmp_path / "lib"], "show": []}[command]
    seeds = ["7"] if command == "show" else []
    seen = run(command, *seeds, "--config", "ieee13x", *arguments)
    assert seen.exit_code == 2
    assert "ieee13x: no such file, and no shipped one of that name; did you mean 'ieee13'" in " ".join(
        seen.errors.split()
    )
    by_name = run("show", 7, "--config", "ieee13").output
    shipped = run("recipes", "ieee13").output
    (tmp_path / "mine.toml").write_text(shipped, encoding="utf-8")
    assert by_name == run("show", 7, "--config", "mine.toml").output
    (tmp_path / "ieee13").write_text(shipped.replace('system = "ieee13"', 'system = "ieee34"'), encoding="utf-8")
    assert json.loads(run("show", 7, "--config", "ieee13").output)["dc_sites"] != json.loads(by_name)["dc_sites"]


def test_shipped_settings_are_listed_and_printed(run) -> None:
    seen = run("recipes")
    assert seen.exit_code == 0
    assert [line.split()[0] for line in seen.output.splitlines()][:2] == ["recipes/ieee123", "recipes/ieee13-broad"]
    listed = json.loads(run("recipes", "--json").output)["settings"]
    assert {"recipes/ieee13_mixture", "training/ieee13", "nightly/ieee13"} <= {entry["name"] for entry in listed}
    assert all(Path(entry["file"]).is_file() and entry["about"] for entry in listed)
    assert run("recipes", "training/ieee13").output == Path(
        next(entry["file"] for entry in listed if entry["name"] == "training/ieee13")
    ).read_text(encoding="utf-8")
    wrong = run("recipes", "ieee13x")
    assert (wrong.exit_code, "did you mean 'ieee13'" in wrong.errors) == (2, True)
