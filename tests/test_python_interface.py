"""What users pass to the public functions in place of the exact types: taken, or refused at once by name."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from library_samples import write_sample

import scenario_lib as sl
from scenario_lib import learning
from scenario_lib.env import RewardConfig, make_batch_size_env, make_batch_size_vector_env, make_sim_fn
from scenario_lib.env.factories import common_settings
from scenario_lib.env.vector_env import VectorSettings
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.recipe import DataDigests, Recipe
from scenario_lib.library.split import as_parts
from scenario_lib.library.views import LibraryView
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.screening.build import BuildResult
from scenario_lib.screening.build_record import BuildLog
from scenario_lib.validation.validate import ValidationReport

SEEDS = (7, 1007, 2007)
IEEE13 = load_experiment("ieee13")
SETTINGS, CRITERIA = sl.RandomizationSettings(), sl.ScreeningCriteria()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> sl.ScenarioLibrary:
    """Three records of ieee13, written without simulating."""
    trace = training_trace_recipe()
    recipe = Recipe(IEEE13, SETTINGS, DataDigests("circuit digest", "models digest", trace.digest, trace.params))
    path = write_sample(tmp_path_factory.mktemp("interface") / "library", [(recipe, list(SEEDS))])
    return sl.ScenarioLibrary(path)


def plan(**changes: Any) -> sl.MeasurePlan:
    return sl.MeasurePlan(**{"experiment": IEEE13, "settings": SETTINGS, "criteria": CRITERIA, **changes})


TAKEN: dict[str, tuple[Callable[[], Any], Any]] = {
    "out as text": (lambda: sl.BuildOptions("/x").out, Path("/x")),
    "jobs of numpy": (lambda: sl.BuildOptions("/x", jobs=np.int64(2)).jobs, 2),
    "seeds as list": (lambda: sl.CandidateRequest(seeds=[7, 1007]).seeds, (7, 1007)),
    "seeds as range": (lambda: sl.CandidateRequest(seeds=range(7, 9)).seeds, (7, 8)),
    "seeds as array": (lambda: sl.CandidateRequest(seeds=np.array([7, 8])).seeds, (7, 8)),
    "quota as mapping": (lambda: sl.CandidateRequest(quota={"under": 2}).quota, sl.Quota(under=2)),
    "counts of numpy": (lambda: sl.CandidateRequest(candidates=np.int32(3)).candidates, 3),
    "experiment by name": (lambda: plan(experiment="ieee13").experiment, IEEE13),
    "settings as mapping": (lambda: plan(settings={"overlay_prob": 0.5}).settings, replace(SETTINGS, overlay_prob=0.5)),
    "criteria as mapping": (lambda: plan(criteria={"max_always_min": 1}).criteria, replace(CRITERIA, max_always_min=1)),
    "specs_dir as text": (lambda: plan(specs_dir="specs").specs_dir, Path("specs")),
    "engine by label": (lambda: plan(engine="reference").engine, sl.Engine("reference")),
    "engine with tolerance": (lambda: plan(engine="compiled/accurate").engine, sl.Engine("compiled", "accurate")),
    "kinds as list": (lambda: plan(kinds=["under"]).kinds, ("under",)),
    "replay engine by label": (lambda: sl.ReplayOptions(engine="reference").engine, sl.Engine("reference")),
    "replay paths": (lambda: sl.ReplayOptions(specs_dir="s", system=Path("f.toml")).system, "f.toml"),
    "replay run as mapping": (lambda: sl.ReplayOptions(run={"jobs": 2}).run, sl.RunOptions(jobs=2)),
    "scenario by name": (lambda: sl.randomize_scenario(7, experiment="ieee13"), "same scenario"),
    "seed of numpy": (lambda: sl.randomize_scenario(np.int64(7), experiment=IEEE13), "same scenario"),
    "scenario by mapping": (lambda: sl.randomize_scenario(7, experiment=IEEE13, settings={}), "same scenario"),
    "assets by name": (lambda: sl.load_assets("ieee13") is sl.load_assets(IEEE13), True),
    "voltages as lists": (lambda: sl.penalty_trace([[0.94, 1.0], [1.0, 1.0]], 0.95, 1.05).round(9).tolist(), [1e-4, 0]),
    "parts as mapping": (lambda: as_parts("parts", {"train": 0.1}).sizes, {"train": Fraction(1, 10)}),
    "parts as counts": (lambda: as_parts("parts", {"train": 2}), sl.Parts({"train": Fraction(2)}, are_counts=True)),
    "parts as text": (lambda: as_parts("parts", "train=0.5,test=0.5").sizes["test"], Fraction(1, 2)),
    "parts of numpy": (
        lambda: as_parts("parts", {"a": np.float64(0.8), "b": np.float32(0.2)}).sizes["b"],
        Fraction("0.2"),
    ),
    "Parts of floats": (lambda: sl.Parts({"a": 0.5}, are_counts=False).sizes["a"], Fraction(1, 2)),
    "evaluation paths": (lambda: learning.EvaluationOptions(policies=["p"]).policies, (Path("p"),)),
    "evaluation baselines": (lambda: learning.EvaluationOptions(baselines=["ofo"]).baselines, ("ofo",)),
    "evaluation teams": (lambda: learning.EvaluationOptions(teams=[["a", "b"]]).teams, ((Path("a"), Path("b")),)),
    "evaluation engine": (lambda: learning.EvaluationOptions(engine="reference").engine, sl.Engine("reference")),
    "training paths": (lambda: learning.TrainingRun("lib", "out").out, Path("out")),
    "training settings": (
        lambda: learning.TrainingRun("lib", "out", {"steps": 5000}).settings,
        learning.TrainingSettings(steps=5000),
    ),
    "training tables": (
        lambda: learning.TrainingSettings(ppo={"hidden_sizes": [32]}, reward={"w_switch": 0.5}).ppo.hidden_sizes,
        (32,),
    ),
    "lists in an experiment": (lambda: replace(IEEE13, sites=list(IEEE13.sites)), IEEE13),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_stands_for_a_type_becomes_it(case: str) -> None:
    call, expected = TAKEN[case]
    wanted = sl.randomize_scenario(7, experiment=IEEE13) if expected == "same scenario" else expected
    assert call() == wanted


def paying(reward: Any) -> dict[str, Any]:
    return {"action": "delta", "reward": reward}


REFUSED: dict[str, tuple[Callable[[sl.ScenarioLibrary, Path], Any], str]] = {
    "out None": (lambda _, __: sl.BuildOptions(None), "out is None.*expected a path"),
    "out empty": (lambda _, __: sl.BuildOptions(""), "out is ''.*expected a path"),
    "out number": (lambda _, __: sl.BuildOptions(5), "out is 5.*expected a path"),
    "jobs text": (lambda _, __: sl.BuildOptions("/x", jobs="2"), "jobs is '2'.*a whole number"),
    "overwrite text": (lambda _, __: sl.BuildOptions("/x", overwrite="no"), "overwrite is 'no'.*True or False"),
    "cluster text": (lambda _, __: sl.BuildOptions("/x", cluster="ray"), "cluster is 'ray'.*a Cluster"),
    "timeout text": (lambda _, __: sl.BuildOptions("/x", timeout_s="5"), "timeout_s is '5'"),
    "seeds text": (lambda _, __: sl.CandidateRequest(seeds="7,8"), "seeds is '7,8'.*a list"),
    "seeds float": (lambda _, __: sl.CandidateRequest(seeds=[7.0]), "seeds is 7.0.*a whole number"),
    "seeds number": (lambda _, __: sl.CandidateRequest(seeds=7), "seeds is 7.*a list"),
    "quota kind": (lambda _, __: sl.CandidateRequest(quota={"below": 2}), "quota: field is 'below'.*under, over"),
    "quota number": (lambda _, __: sl.CandidateRequest(quota=5), "quota is 5.*a Quota, or a mapping"),
    "quota count": (lambda _, __: sl.Quota(under="2"), "under is '2'.*a whole number"),
    "experiment None": (lambda _, __: plan(experiment=None), "experiment is None.*an Experiment"),
    "experiment unknown": (lambda _, __: plan(experiment="ieee14"), "'ieee14' is not known"),
    "settings None": (lambda _, __: plan(settings=None), "settings is None.*a RandomizationSettings"),
    "settings swapped": (lambda _, __: plan(settings=CRITERIA), "settings is ScreeningCriteria"),
    "settings name": (lambda _, __: plan(settings={"pv": 1}), "settings: field is 'pv'"),
    "criteria name": (lambda _, __: plan(criteria={"floor": 1}), "criteria: field is 'floor'"),
    "engine unknown": (lambda _, __: plan(engine="opendss"), "engine is 'opendss'; expected one of"),
    "engine None": (lambda _, __: plan(engine=None), "engine is None.*an Engine"),
    "kinds text": (lambda _, __: plan(kinds="under"), "kinds is 'under'.*a list"),
    "kinds unknown": (lambda _, __: plan(kinds=["below"]), "kinds is 'below'; expected among"),
    "replay records": (lambda _, __: sl.ReplayOptions(records=1.5), "records is 1.5.*a whole number"),
    "replay negative": (lambda _, __: sl.ReplayOptions(records=-1), "records is -1"),
    "replay run": (lambda _, __: sl.ReplayOptions(run=4), "run is 4.*RunOptions"),
    "run jobs": (lambda _, __: sl.RunOptions(jobs="4"), "jobs is '4'; expected a whole number"),
    "run timeout": (lambda _, __: sl.RunOptions(timeout_s="4"), "timeout_s is '4'"),
    "run cluster": (lambda _, __: sl.RunOptions(cluster="ray"), "cluster is 'ray'"),
    "build plan": (lambda _, out: sl.build_library("ieee13", "x", out), "plan is 'ieee13'.*a MeasurePlan"),
    "build request": (lambda _, out: sl.build_library(plan(), 10, out), "request is 10.*a CandidateRequest"),
    "build options": (
        lambda _, out: sl.build_library(plan(), sl.CandidateRequest(1), out / "x"),
        "options is.*a BuildOptions",
    ),
    "validate options": (lambda lib, _: sl.validate_library(lib.path, 3), "options is 3.*a ReplayOptions"),
    "validate None": (lambda _, __: sl.validate_library(None), "path is None.*a path"),
    "library None": (lambda _, __: sl.ScenarioLibrary(None), "path is None.*a path"),
    "library flag": (lambda lib, _: sl.ScenarioLibrary(lib.path, from_numbers="no"), "from_numbers is 'no'"),
    "materialize text": (lambda lib, _: lib.materialize("7"), "record is '7'.*a whole number"),
    "materialize index": (lambda lib, _: lib.materialize(3), "record is 3; expected.*below the 3 of"),
    "record_for text": (lambda lib, _: lib.record_for("7"), "seed is '7'.*a whole number"),
    "split parts": (lambda lib, out: sl.split_library(lib, out / "x", 0.5), "parts is 0.5.*a mapping"),
    "split names": (lambda lib, out: sl.split_library(lib, out / "x", {"a/b": 0.5}), "parts: name is 'a/b'"),
    "split size": (lambda lib, out: sl.split_library(lib, out / "x", {"a": -1}), "size of a is -1.*above 0"),
    "split nan": (lambda lib, out: sl.split_library(lib, out / "x", {"a": float("nan")}), "size of a is nan"),
    "split mixed": (lambda lib, out: sl.split_library(lib, out / "x", {"a": 1, "b": 0.5}), "all fractions"),
    "split whole": (lambda lib, out: sl.split_library(lib, out / "x", {"a": 0.8, "b": 0.5}), "fractions of 1"),
    "split seed": (lambda lib, out: sl.split_library(lib, out / "x", {"a": 0.5}, seed="s"), "seed is 's'"),
    "split out": (lambda lib, _: sl.split_library(lib, None, {"a": 0.5}), "out is None.*a path"),
    "merge one text": (lambda lib, out: sl.merge_libraries(str(lib.path), out / "x"), "libraries to merge is.*a list"),
    "merge a library": (lambda lib, out: sl.merge_libraries(lib, out / "x"), "libraries to merge is ScenarioRecord"),
    "merge out": (lambda lib, _: sl.merge_libraries([lib, lib], 3), "out is 3.*a path"),
    "leaks None": (lambda lib, _: sl.find_leaks(lib, None), "path is None"),
    "leaks distance": (lambda lib, _: sl.find_leaks(lib, lib, "near"), "nearer_than is 'near'"),
    "seed float": (lambda _, __: sl.randomize_scenario(7.0, experiment=IEEE13), "seed is 7.0.*a whole number"),
    "assets None": (lambda _, __: sl.load_assets(None), "experiment is None"),
    "assets folder": (lambda _, __: sl.load_assets(IEEE13, 5), "specs_dir is 5.*a path"),
    "rollout scenario": (lambda _, __: sl.run_rollout(7, IEEE13, None), "scenario is 7.*a Scenario as"),
    "rollout assets": (
        lambda _, __: sl.run_rollout(sl.randomize_scenario(7, experiment=IEEE13), IEEE13, "specs"),
        "assets is 'specs'.*as load_assets returns",
    ),
    "rollout steps": (lambda _, __: rollout_of(n_steps=0), "n_steps is 0"),
    "rollout steps text": (lambda _, __: rollout_of(n_steps="60"), "n_steps is '60'"),
    "rollout policy": (lambda _, __: rollout_of(policy=None), "policy is None.*one of none, ofo"),
    "rollout feeder": (
        lambda lib, _: sl.run_rollout(lib.materialize(0), "ieee34", sl.load_assets(IEEE13)),
        "the experiment on ieee34 has",
    ),
    "progress number": (
        lambda _, out: sl.build_library(plan(), sl.CandidateRequest(1), sl.BuildOptions(out / "x"), 5),
        "on_progress is 5; expected a function",
    ),
    "stored numbers": (lambda lib, _: lib.stored_numbers(3), "record is 3"),
    "flat settings": (lambda _, __: sl.RandomizationSettings.from_openg2g("x"), "settings is 'x'.*a Mapping"),
    "limits type": (lambda _, __: sl.measure_voltages([[1.0]], sl.VoltageLimits(), 1.05), "v_min_pu is VoltageLimits"),
    "reward limits": (lambda _, __: RewardConfig(v_min="0.9"), "v_min is '0.9'; expected a finite number"),
    "environments": (lambda _, __: VectorSettings("2"), "num_envs is '2'; expected a whole number"),
    "threads": (lambda _, __: VectorSettings(2, threads=0), "threads is 0; expected at least 1"),
    "rollout policy name": (lambda _, __: rollout_of(policy="OFO"), "policy 'OFO' is not known"),
    "voltages vector": (lambda _, __: sl.measure_voltages([0.94, 1.0], 0.95, 1.05), r"voltages_pu has shape \(2,\)"),
    "voltages none": (lambda _, __: sl.measure_voltages(np.empty((0, 3)), 0.95, 1.05), "voltages_pu has shape"),
    "voltages object": (lambda lib, _: sl.penalty_trace(lib, 0.95, 1.05), "voltages_pu is of type ScenarioLibrary"),
    "voltages limits": (lambda _, __: sl.penalty_trace([[1.0]], 1.05, 0.95), "v_max_pu is 0.95"),
    "policies text": (lambda _, __: learning.EvaluationOptions(policies="runs/a"), "policies is 'runs/a'.*a list"),
    "baselines text": (lambda _, __: learning.EvaluationOptions(baselines="ofo"), "baselines is 'ofo'.*a list"),
    "evaluate options": (lambda lib, _: learning.evaluate(lib, ["ofo"]), "options is.*an EvaluationOptions"),
    "training out": (lambda lib, _: learning.TrainingRun(lib, None), "out is None.*a path"),
    "training settings name": (lambda _, __: learning.TrainingRun("l", "o", {"step": 1}), "settings: field is 'step'"),
    "training no run": (lambda lib, _: learning.train(lib), "run is ScenarioLibrary.*a TrainingRun"),
    "policy None": (lambda _, __: learning.TrainedPolicy.load(None), "directory is None.*a path"),
    "environment library": (lambda _, __: make_batch_size_env(None), "library is None"),
    "environment specs": (lambda lib, _: make_batch_size_env(lib, 5), "specs_dir is 5"),
    "vector library": (lambda _, __: make_batch_size_vector_env(2, 7), "library is 7"),
    "reward name": (
        lambda _, __: common_settings(SimpleNamespace(), {"action": "delta", "reward": {"w": 1}}),
        "reward has no 'w'",
    ),
    "reward number": (
        lambda _, __: common_settings(SimpleNamespace(), {"action": "delta", "reward": 1}),
        "reward is 1.*a RewardConfig",
    ),
    "simulation engine": (lambda _, __: make_sim_fn(IEEE13, None, engine=7), "engine is 7.*an Engine"),
    "experiment sites": (lambda _, __: replace(IEEE13, sites=IEEE13.sites[0]), "sites is Site.*a list"),
}


def rollout_of(**changes: Any) -> sl.Rollout:
    scenario = sl.randomize_scenario(7, experiment=IEEE13)
    return sl.run_rollout(scenario, IEEE13, sl.load_assets(IEEE13), **changes)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_at_once_by_name(
    case: str, library: sl.ScenarioLibrary, tmp_path: Path
) -> None:
    call, message = REFUSED[case]
    with pytest.raises((InvalidSettingError, UnknownNameError), match=message) as refusal:
        call(library, tmp_path)
    assert len(str(refusal.value)) < 500
    assert not list(tmp_path.iterdir())


def test_an_opened_library_or_its_path_as_text_will_do(library: sl.ScenarioLibrary, tmp_path: Path) -> None:
    assert sl.validate_library(library).records == sl.validate_library(str(library.path)).records == len(SEEDS)
    assert sl.find_leaks(library, str(library.path)).shared_seeds == SEEDS
    parts = sl.split_library(library, str(tmp_path / "parts"), {"train": 2, "test": 1})
    merged = sl.merge_libraries([str(part.path) for part in parts], str(tmp_path / "merged"))
    assert [part.records for part in parts] == [2, 1]
    assert merged.path == tmp_path / "merged"
    assert [record.seed for record in sl.ScenarioLibrary(str(merged.path))] == list(SEEDS)


def test_a_record_may_be_given_by_its_index(library: sl.ScenarioLibrary) -> None:
    assert library.materialize(1) == library.materialize(library[1])
    assert library.materialize(np.int64(-1)).seed == SEEDS[-1]
    assert library.recipe_of(0) is library.recipe_of(library[0])


def test_a_seed_may_stand_for_a_source_of_randomness(library: sl.ScenarioLibrary) -> None:
    assert library.sample(3).seed == library.sample(np.random.default_rng(3)).seed
    view = LibraryView(library)
    assert view.sample(3).seed == view.sample(np.random.default_rng(3)).seed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sl, lib: sl.plot_scenario(lib, 3), "record is 3; expected"),
        (lambda sl, lib: sl.plot_scenario(lib, "7"), "record is '7'.*a whole number"),
        (lambda sl, _: sl.plot_scenario(None, 0), "path is None"),
        (lambda sl, lib: sl.plot_scenario(lib, 0, specs_dir=3), "specs_dir is 3"),
        (lambda sl, lib: sl.plot_rollout(lib), "rollout is ScenarioLibrary.*a Rollout as run_rollout"),
        (lambda sl, _: sl.plot_feeder(3), "feeder is 3.*an Experiment"),
        (lambda sl, _: sl.plot_feeder("ieee13", [1.0]), r"voltages is \[1.0\].*a Mapping"),
        (lambda sl, _: sl.plot_feeder("ieee13", limits=0.95), "limits is 0.95.*a pair"),
    ],
)
def test_pictures_refuse_by_name(
    call: Callable[[Any, sl.ScenarioLibrary], Any], message: str, library: sl.ScenarioLibrary
) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InvalidSettingError, match=message):
        call(sl, library)


def test_pictures_take_names_and_pairs() -> None:
    pytest.importorskip("matplotlib")
    assert sl.plot_feeder("ieee13", limits=(0.97, 1.03)).axes
    assert sl.plot_rollout(rollout_of(n_steps=30), (0.97, 1.03)).axes


def test_what_is_printed_is_one_short_line(library: sl.ScenarioLibrary) -> None:
    shown = [
        library,
        library[0],
        LibraryView(library),
        library.materialize(0),
        IEEE13,
        plan(),
        sl.load_assets(IEEE13),
        rollout_of(n_steps=2),
        BuildResult(Path("x"), [], kept_existing=False, notice=None, log=BuildLog()),
        ValidationReport(Path("x"), 3, 0, ()),
        learning.EvaluationOptions(),
    ]
    texts = [repr(value) for value in shown]
    assert [text for text in texts if "\n" in text or len(text) > 1500] == []
    assert texts[3].startswith("Scenario(seed=7, drawn: sites default; ")
    assert texts[4].startswith("Experiment(ieee13: sites default; models Llama-")
    assert texts[8] == "BuildResult('x': 0 accepted of 0 candidates)"


def test_what_public_functions_need_is_exported() -> None:
    names = {"Cluster", "VoltageLimits", "Engine", "Parts", "Quota", "RunOptions"}
    assert names <= set(sl.__all__)
