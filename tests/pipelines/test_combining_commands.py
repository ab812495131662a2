"""merge, export, split, leaks and select as a person sees them: what they say, and their exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from scenario_lib.execution.tasks import TaskOutcome
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening import build
from scenario_lib.screening.candidate import Candidate, MeasuredCandidate, MeasurePlan

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"
BUILD = ("build", "--system", "ieee13", "--engine", "reference", "--no-report", "--jobs", 1)

MIXTURE = """
system = "ieee13"
[screening]
min_recovery_frac = 0.5
[[strata]]
name = "evening"
candidates = { quota = { under = 3 }, max_candidates = 8 }
[[strata]]
name = "noon"
candidates = { quota = { over = 2 }, max_candidates = 8 }
randomization = { pv_scale_min = 1.5 }
"""


def measure(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    """Kinds "under" and "over" take turns; OFO removes 0.6 to 0.9."""
    scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
    drawn = (seed, scenario_digest(scenario), scenario.params.pv_scale, scenario.params.load_scale)
    position = seed // 1000
    times = (90.0, 90.0, 0.0) if position % 2 == 0 else (90.0, 0.0, 90.0)
    recovery = 0.6 + 0.1 * (position % 4)
    figures = [VoltageMeasures(integral, *times, 0.93, 1.06) for integral in (10.0, 10.0 * (1 - recovery))]
    traces = np.random.default_rng(seed).random((2, 3600)) if recovery >= plan.criteria.min_recovery_frac else None
    return Candidate(*drawn, *figures, False, 1000, 2000), traces


@pytest.fixture(autouse=True)
def made_up(monkeypatch) -> None:
    monkeypatch.setattr(build, "measure_candidate", measure)
    monkeypatch.setattr(
        build, "run_tasks", lambda function, tasks, options: (TaskOutcome(seed, function(seed)) for seed in tasks)
    )


@pytest.fixture
def library(run, tmp_path: Path) -> Path:
    """Twelve candidates, of which those with a recovery of at least 0.7 are accepted."""
    assert run(*BUILD, "--candidates", 12, "--out", tmp_path / "library").exit_code == 0
    return tmp_path / "library"


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    (tmp_path / "mixture.toml").write_text(MIXTURE)
    return tmp_path / "mixture.toml"


def test_a_mixture_is_built_shown_and_exported(run, mixture: Path, tmp_path: Path) -> None:
    command = ("build", "--config", mixture, "--engine", "reference", "--no-report", "--jobs", 1)
    seen = run(*command, "--out", tmp_path / "mixed")
    assert seen.exit_code == 0
    assert "stratum             evening: 3 under of 5 candidates" in seen.output
    assert "stratum             noon: 2 over of 4 candidates" in seen.output
    assert "asked for 2 over" in run("info", tmp_path / "mixed").output
    shown = json.loads(run("show", 9007, "--config", mixture).output)
    library = ScenarioLibrary(tmp_path / "mixed")
    assert shown == library.materialize(library.record_for(9007)).to_dict()
    assert run("validate", tmp_path / "mixed").exit_code == 0
    assert run("export", tmp_path / "mixed", "--recipe", "noon", "--out", tmp_path / "noon").exit_code == 0
    assert "randomize_kwargs" in ScenarioLibrary(tmp_path / "noon").config
    assert run("export", tmp_path / "mixed", "--out", tmp_path / "which").exit_code == 1


def test_a_short_quota_exits_7_and_is_named(run, mixture: Path, tmp_path: Path) -> None:
    mixture.write_text(MIXTURE.replace("over = 2", "over = 9"))
    seen = run(
        "build", "--config", mixture, "--engine", "reference", "--no-report", "--jobs", 1, "--out", tmp_path / "mixed"
    )
    assert seen.exit_code == 7
    assert "fewer were accepted than asked for: noon: 4 of 9 over; the brake" in seen.errors


def test_options_that_strata_do_not_take_are_a_usage_error(run, mixture: Path, tmp_path: Path) -> None:
    seen = run("build", "--config", mixture, "--accept", 5, "--out", tmp_path / "mixed")
    assert seen.exit_code == 2
    assert "accept: the recipe has strata" in seen.errors
    shifted = ("--seed-start", 100, "--engine", "reference", "--jobs", 1, "--out", tmp_path / "mixed")
    assert run("build", "--config", mixture, "--no-report", *shifted).exit_code == 0
    assert ScenarioLibrary(tmp_path / "mixed")[0].seed == 100_007


def test_merge_says_what_it_did(run, library: Path, tmp_path: Path) -> None:
    run(*BUILD, "--candidates", 6, "--seed-start", 10, "--out", tmp_path / "more")
    seen = run("merge", library, tmp_path / "more", "--out", tmp_path / "merged")
    assert seen.exit_code == 0
    assert "dropped as duplicates" in seen.output
    facts = json.loads(run("merge", tmp_path / "more", library, "--out", tmp_path / "again", "--json").output)
    assert facts["records"] == len(ScenarioLibrary(tmp_path / "merged"))
    assert facts["candidates"] == 16
    assert run("validate", tmp_path / "merged").exit_code == 0
    refused = run("merge", library, OPENG2G, "--out", tmp_path / "refused")
    assert (refused.exit_code, refused.errors.count("\n")) == (1, 1)
    assert run("merge", library, "--out", tmp_path / "one").exit_code == 2


def test_split_and_leaks(run, library: Path, tmp_path: Path) -> None:
    seen = run("split", library, "--out", tmp_path / "parts", "--parts", "train=6,test=3")
    assert seen.exit_code == 0
    assert f"{tmp_path / 'parts' / 'train'}: 6 records (" in seen.output
    clean = run("leaks", tmp_path / "parts" / "train", tmp_path / "parts" / "test")
    assert (clean.exit_code, clean.output.splitlines()[-1]) == (0, "nothing in common")
    leaking = run("leaks", library, tmp_path / "parts" / "test", "--json")
    assert leaking.exit_code == 8
    facts = json.loads(leaking.output)
    assert (len(facts["shared_seeds"]), facts["between"]["max"], facts["leaks"]) == (3, 0.0, True)
    near = run("leaks", tmp_path / "parts" / "train", tmp_path / "parts" / "test", "--nearer-than", 50)
    assert near.exit_code == 8
    assert "too near            3 records" in near.output
    assert run("split", library, "--out", tmp_path / "faulty", "--parts", "train=2.0").exit_code == 2
    assert run("validate", tmp_path / "parts" / "test").exit_code == 0
    whole = json.loads(run("split", library, "--out", tmp_path / "json", "--parts", "a=0.5,b=0.5", "--json").output)
    assert sum(part["records"] for part in whole) == 9


def test_select_without_and_with_a_run(run, library: Path, tmp_path: Path) -> None:
    narrower = run("select", library, "--min-recovery-frac", 0.75, "--out", tmp_path / "narrower")
    assert narrower.exit_code == 0
    assert "records             6 kept, 3 lost" in narrower.output
    wider = run("select", library, "--min-recovery-frac", 0.5)
    assert wider.exit_code == 9
    assert "need a run          3 candidates: seeds 7, 4007, 8007" in wider.output
    assert "some candidates need a run; --run does them" in wider.errors
    run(*BUILD, "--candidates", 12, "--set", "min_recovery_frac=0.5", "--out", tmp_path / "fresh")
    ran = run("select", library, "--min-recovery-frac", 0.5, "--run", "--out", tmp_path / "wider", "--jobs", 1)
    assert ran.exit_code == 0
    assert ran.output.count("candidates ") == ran.output.count("records ") == 1
    assert "need a run" not in ran.output + ran.errors
    assert "accepted  " not in ran.errors
    assert (tmp_path / "wider" / "digests.json").read_bytes() == (tmp_path / "fresh" / "digests.json").read_bytes()
    nothing = run("select", library, "--min-recovery-frac", 0.99, "--out", tmp_path / "none")
    assert nothing.exit_code == 5
    assert "nothing is accepted by these thresholds; nothing was written" in nothing.errors
    assert json.loads(run("select", library, "--json").output)["lost"] == []
    assert run("select", library, "--run").exit_code == 2
    assert run("select", library, "--max-recovery-frac", 0.1).exit_code == 2
