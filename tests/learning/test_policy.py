"""Policies on disk, and a policy as a controller beside the same policy in an environment."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from policy_samples import WritePolicy, random_policy, settings_of

from scenario_lib.env.making import make_batch_size_env
from scenario_lib.errors import InvalidSettingError, PolicyError
from scenario_lib.feeders.catalogue import load_experiment
from scenario_lib.learning.policy import PolicyController, TrainedPolicy
from scenario_lib.learning.worlds import World
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.rollout import run_rollout


def test_what_is_read_is_what_was_written(policy_on_disk: WritePolicy, library_path: Path, specs_dir: Path) -> None:
    policy = TrainedPolicy.load(policy_on_disk("mine"))
    parts = random_policy(World(library_path, specs_dir, None, settings_of()))
    assert (policy.name, policy.actor, policy.normalization) == ("mine", parts.actor, parts.normalization)
    assert policy.card.observation_config == parts.card.observation_config
    assert policy.card.settings == parts.card.settings
    observation = np.random.default_rng(1).normal(size=policy.actor.n_inputs).astype(np.float32)
    action = policy.act(observation)
    assert action.tolist() == pickle.loads(pickle.dumps(policy)).act(observation).tolist()
    assert action.shape == (5,)


def test_zones_keep_the_order_in_which_they_are_observed(tmp_path: Path, library_path: Path) -> None:
    from dataclasses import replace

    from scenario_lib.env.making import observation_config
    from scenario_lib.learning.policy_files import CARD, read_card, write_policy

    experiment = load_experiment("ieee123")
    config = observation_config(experiment, (), "per-zone-summary", experiment.sites)
    # The other way round than sorted, whatever the experiment's own order is.
    reversed_zones = {
        zone: (config.zone_summary or {})[zone] for zone in sorted(config.zone_summary or {}, reverse=True)
    }
    config = replace(config, zone_summary=reversed_zones)
    parts = random_policy(World(library_path, None, None, settings_of()))
    sites = {site.name: tuple(model.label for model in site.models) for site in experiment.sites}
    write_policy(tmp_path, replace(parts, card=replace(parts.card, observation_config=config, sites=sites)))
    read = read_card(tmp_path)
    assert list(read.observation_config.zone_summary or {}) == list(reversed_zones)
    assert list(read.sites) == [site.name for site in experiment.sites]
    assert json.loads((tmp_path / CARD).read_text())["format_version"] == 1


@pytest.mark.parametrize(
    ("seed", "environment"), [(0, {}), (10, {"action": "coupled", "observation": "per-bus-summary"})], ids=str
)
def test_a_controller_does_what_the_environment_does(
    policy_on_disk: WritePolicy, library_path: Path, specs_dir: Path, seed: int, environment: dict[str, str]
) -> None:
    policy = TrainedPolicy.load(policy_on_disk(seed=seed, **environment))
    library = ScenarioLibrary(library_path)
    env = make_batch_size_env(library, specs_dir, truncate_episode=False, **environment)
    observation, info = env.reset(options={"scenario": 7})
    batches = [list(info["batch_sizes"].values())]
    for _ in range(60):
        observation, _, _, _, info = env.step(policy.act(observation))
        batches.append(list(info["batch_sizes"].values()))
    env.close()
    experiment = load_experiment("ieee13")
    scenario = library.materialize(library.record_for(7))
    rollout = run_rollout(scenario, experiment, load_assets(experiment, specs_dir), policy, n_steps=61)
    assert rollout.policy == "random"
    assert len(np.unique(batches, axis=0)) >= 3
    assert rollout.batch_sizes.tolist() == batches


def test_a_run_and_its_checkpoints_are_named_and_found(policy_on_disk: WritePolicy, tmp_path: Path) -> None:
    policy = policy_on_disk("loose")
    (tmp_path / "run").mkdir()
    policy.rename(tmp_path / "run" / "policy")
    assert TrainedPolicy.load(tmp_path / "run").name == "run"
    assert TrainedPolicy.load(tmp_path / "run" / "policy").name == "run"
    with pytest.raises(PolicyError, match=r"has no policy\.json"):
        TrainedPolicy.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "damage", "text"),
    [
        ("actor.json", lambda text: text.replace("tanh", "relu"), "actor.json: is not the file that was written"),
        ("normalize.json", lambda _: "", "normalize.json: is not the file"),
        ("policy.json", lambda text: text[:-9], "policy.json: cannot be read"),
        ("policy.json", lambda text: text.replace('"format_version": 1', '"format_version": 2'), "format version 2"),
        ("policy.json", lambda text: text.replace('"feeder"', '"feedr"'), "policy.json: .*feed"),
        ("policy.json", lambda text: text.replace('"steps": 1000', '"steps": NaN'), "NaN is not allowed"),
    ],
)
def test_a_damaged_policy_is_refused(policy_on_disk: WritePolicy, name: str, damage: object, text: str) -> None:
    folder = policy_on_disk()
    file = folder / name
    file.write_text(damage(file.read_text()))  # type: ignore[operator]
    with pytest.raises(PolicyError, match=text):
        TrainedPolicy.load(folder)


def test_an_observation_of_another_length_is_refused(policy_on_disk: WritePolicy) -> None:
    with pytest.raises(InvalidSettingError, match=r"has shape \(3,\); policy random expects"):
        TrainedPolicy.load(policy_on_disk()).act(np.zeros(3, np.float32))


def test_another_feeder_is_refused_before_the_first_second(policy_on_disk: WritePolicy, specs_dir: Path) -> None:
    policy = TrainedPolicy.load(policy_on_disk())
    other = load_experiment("ieee34")
    with pytest.raises(PolicyError, match="policy random sets batch sizes at default; the rollout has sites"):
        run_rollout(base_scenario(other), other, load_assets(other, specs_dir), policy, n_steps=2)


def test_other_bus_phases_are_refused_at_the_start(policy_on_disk: WritePolicy) -> None:
    class Grid:
        v_index = (("elsewhere", 1),)

    controller = PolicyController(TrainedPolicy.load(policy_on_disk()), {"default": object()}, Grid())
    with pytest.raises(PolicyError, match="trained on another feeder: bus-phases"):
        controller.start()
