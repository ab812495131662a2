"""Trained policies on both engines, alone and several in one rollout."""

from pathlib import Path

import numpy as np
import pytest
from library_samples import write_sample
from policy_samples import random_policy, settings_of

from scenario_lib.errors import PolicyError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.learning.environments import TrainingEnvironments
from scenario_lib.learning.evaluation import EvaluationOptions, evaluate
from scenario_lib.learning.policy import TrainedPolicy, whole_directory, write_policy
from scenario_lib.learning.policy_rollout import PolicyTeam, run_trained
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import DataDigests, Recipe
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import Engine
from scenario_lib.simulation.rollout import Rollout, run_reference

N_STEPS = 60


@pytest.fixture(scope="module")
def two_sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library on ieee34, which has the sites upstream and downstream."""
    trace = training_trace_recipe()
    data = DataDigests("circuit digest", "models digest", trace.digest, trace.params)
    recipe = Recipe(load_experiment("ieee34"), RandomizationSettings(), data)
    return write_sample(tmp_path_factory.mktemp("sample") / "ieee34", [(recipe, [7])])


@pytest.fixture(scope="module")
def site_policies(tmp_path_factory: pytest.TempPathFactory, two_sites: Path, specs_dir: Path) -> tuple[Path, ...]:
    """A random policy for each of its sites."""
    folder = tmp_path_factory.mktemp("policies")
    for seed, site in enumerate(("upstream", "downstream"), start=1):
        with whole_directory(folder / site) as fresh:
            write_policy(
                fresh,
                random_policy(TrainingEnvironments(two_sites, specs_dir, None, settings_of(site=site)), seed=seed),
            )
    return folder / "upstream", folder / "downstream"


def on_both(control: TrainedPolicy | PolicyTeam, library: Path, specs_dir: Path) -> tuple[Rollout, Rollout]:
    """The library's first scenario on the compiled and the reference engine."""
    opened = ScenarioLibrary(library)
    experiment = load_experiment(opened.recipe_of(opened[0]).experiment.name)
    parts = opened.materialize(opened[0]), experiment, load_assets(experiment, specs_dir)
    return run_trained(*parts, control, Engine(), N_STEPS), run_reference(*parts, control, N_STEPS)


def assert_alike(found: Rollout, wanted: Rollout) -> None:
    """Equal decisions and names; numbers as close as the engines are."""
    for name in ("policy", "bus_phases", "site_names", "model_labels"):
        assert getattr(found, name) == getattr(wanted, name)
    assert found.batch_sizes.tolist() == wanted.batch_sizes.tolist()
    assert found.active_replicas.tolist() == wanted.active_replicas.tolist()
    assert np.abs(found.voltages_pu - wanted.voltages_pu).max() < 1e-6
    assert found.power_w == pytest.approx(wanted.power_w, rel=1e-9)
    assert found.itl_s == pytest.approx(wanted.itl_s, rel=1e-9, nan_ok=True)


def test_a_policy_does_the_same_on_both_engines(library_path: Path, specs_dir: Path, tmp_path: Path) -> None:
    write_policy(tmp_path, random_policy(TrainingEnvironments(library_path, specs_dir, None, settings_of()), seed=10))
    found, wanted = on_both(TrainedPolicy.load(tmp_path), library_path, specs_dir)
    assert_alike(found, wanted)
    assert len(np.unique(found.batch_sizes, axis=0)) >= 3


def test_each_of_a_team_sets_its_own_site(site_policies: tuple[Path, ...], two_sites: Path, specs_dir: Path) -> None:
    members = tuple(TrainedPolicy.load(folder) for folder in site_policies)
    together, reference = on_both(PolicyTeam(members), two_sites, specs_dir)
    assert_alike(together, reference)
    assert together.policy == "upstream+downstream"
    sites = np.array([site for site, _ in together.model_labels])
    for member in members:
        alone, _ = on_both(member, two_sites, specs_dir)
        own = sites == member.name
        assert len(np.unique(alone.batch_sizes[:, own], axis=0)) >= 3
        assert len(np.unique(alone.batch_sizes[:, ~own], axis=0)) == 1
        assert len(np.unique(together.batch_sizes[:, own], axis=0)) >= 3


def test_an_evaluation_plays_teams_beside_policies(
    site_policies: tuple[Path, ...], two_sites: Path, specs_dir: Path
) -> None:
    options = EvaluationOptions(site_policies[:1], (), 1, specs_dir, teams=(site_policies,))
    comparison = evaluate(two_sites, options)
    assert [entry.control for entry in comparison.scenarios] == ["upstream", "upstream+downstream"]
    alone, together = (entry.figures for entry in comparison.scenarios)
    assert alone is not None
    assert together is not None
    assert 0 < alone.batch_changes < together.batch_changes


def test_what_is_no_team_is_refused(
    site_policies: tuple[Path, ...], library_path: Path, specs_dir: Path, tmp_path: Path
) -> None:
    upstream = TrainedPolicy.load(site_policies[0])
    with pytest.raises(PolicyError, match="both set batch sizes at site upstream; expected sites of its own"):
        PolicyTeam((upstream, upstream))
    write_policy(tmp_path, random_policy(TrainingEnvironments(library_path, specs_dir, None, settings_of())))
    with pytest.raises(PolicyError, match="for ieee13, ieee34; expected one feeder"):
        PolicyTeam((upstream, TrainedPolicy.load(tmp_path)))
