"""Policies on disk, and a policy as a controller beside the same policy in an environment."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from policy_samples import WritePolicy, random_policy, settings_of

from scenario_lib._files import file_digest
from scenario_lib.env.factories import make_batch_size_env
from scenario_lib.errors import InvalidSettingError, PolicyError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.learning.environments import TrainingEnvironments
from scenario_lib.learning.policy import PolicyController, TrainedPolicy
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.rollout import run_reference


def test_what_is_read_is_what_was_written(policy_on_disk: WritePolicy, library_path: Path, specs_dir: Path) -> None:
    policy = TrainedPolicy.load(policy_on_disk("mine"))
    parts = random_policy(TrainingEnvironments(library_path, specs_dir, None, settings_of()))
    assert (policy.name, policy.actor, policy.normalization) == ("mine", parts.actor, parts.normalization)
    assert policy.card.observation_config == parts.card.observation_config
    assert policy.card.settings == parts.card.settings
    observation = np.random.default_rng(1).normal(size=policy.actor.n_inputs).astype(np.float32)
    action = policy.act(observation)
    assert action.tolist() == pickle.loads(pickle.dumps(policy)).act(observation).tolist()
    assert action.shape == (5,)


def test_zones_keep_the_order_in_which_they_are_observed(tmp_path: Path, library_path: Path) -> None:
    from dataclasses import replace

    from scenario_lib.env.factories import observation_config
    from scenario_lib.learning.policy import CARD, read_card, write_policy

    experiment = load_experiment("ieee123")
    config = observation_config(experiment, (), "per-zone-summary", experiment.sites)
    # The other way round than sorted, whatever the experiment's own order is.
    reversed_zones = {
        zone: (config.zone_summary or {})[zone] for zone in sorted(config.zone_summary or {}, reverse=True)
    }
    config = replace(config, zone_summary=reversed_zones)
    parts = random_policy(TrainingEnvironments(library_path, None, None, settings_of()))
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
    rollout = run_reference(scenario, experiment, load_assets(experiment, specs_dir), policy, n_steps=61)
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


def _scaled(value: object, factor: float) -> object:
    return [_scaled(entry, factor) for entry in value] if isinstance(value, list) else value * factor  # type: ignore[operator]


def _statistics(tables: dict, **change: object) -> dict:
    return {**tables, "observations": {**tables["observations"], **change}}


def _layers(tables: dict, change: Callable[[dict], dict]) -> dict:
    return {**tables, "layers": [change(layer) for layer in tables["layers"]]}


def _config(tables: dict, **change: object) -> dict:
    return {**tables, "observation_config": {**tables["observation_config"], **change}}


def _sizes(tables: dict, sizes: list) -> dict:
    known = tables["observation_config"]["feasible_batch_sizes"]
    return _config(tables, feasible_batch_sizes=dict.fromkeys(known, sizes))


NONSENSE = {
    "weights beyond float32": ("actor", lambda t: _layers(t, lambda x: {**x, "weight": _scaled(x["weight"], 1e39)})),
    "biases beyond float32": ("actor", lambda t: _layers(t, lambda x: {**x, "bias": _scaled(x["bias"], -1e39)})),
    "ragged weights": (
        "actor",
        lambda t: _layers(t, lambda x: {**x, "weight": [[1.0], *x["weight"][1:]]}),
    ),
    "no layers": ("actor", lambda t: {**t, "layers": []}),
    "other choices": ("actor", lambda t: {**t, "choices": [5, 5, 5]}),
    "no choices": ("actor", lambda t: {**t, "choices": []}),
    "negative choices": ("actor", lambda t: {**t, "choices": [-3, 18]}),
    "a single action": ("actor", lambda t: {**t, "single": True}),
    "another activation": ("actor", lambda t: {**t, "activation": "exec"}),
    "a negative epsilon": ("normalize", lambda t: {**t, "epsilon": -1.0}),
    "no epsilon": ("normalize", lambda t: {**t, "epsilon": 0.0}),
    "a negative clip": ("normalize", lambda t: {**t, "clip_observations": -5.0}),
    "a clip beyond float32": ("normalize", lambda t: {**t, "clip_observations": 1e39}),
    "statistics of one slot": ("normalize", lambda t: _statistics(t, mean=[0.0], var=[1.0])),
    "a mean beyond float32": ("normalize", lambda t: _statistics(t, mean=_scaled(t["observations"]["mean"], 1e39))),
    "negative variances": ("normalize", lambda t: _statistics(t, var=_scaled(t["observations"]["var"], -1))),
    "no count": ("normalize", lambda t: _statistics(t, count=0.0)),
    "returns of two slots": ("normalize", lambda t: {**t, "returns": {"mean": [0, 0], "var": [1, 1], "count": 1}}),
    "no batch sizes": ("policy", lambda t: _sizes(t, [])),
    "falling batch sizes": ("policy", lambda t: _sizes(t, [128, 64])),
    "a batch size of 0": ("policy", lambda t: _sizes(t, [0, 64])),
    "a batch size of millions": ("policy", lambda t: _sizes(t, [64, 10**9])),
    "no model's batch sizes": ("policy", lambda t: _config(t, feasible_batch_sizes={})),
    "no deadlines": ("policy", lambda t: _config(t, itl_deadlines={})),
    "replicas beyond all": (
        "policy",
        lambda t: _config(t, max_replicas=dict.fromkeys(t["observation_config"]["max_replicas"], 10**17)),
    ),
    "a billion voltages": ("policy", lambda t: _config(t, n_bus_phases=10**9)),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_policy_of_nonsense_is_refused_when_it_is_loaded(policy_on_disk: WritePolicy, nonsense: str) -> None:
    folder = policy_on_disk()
    part, change = NONSENSE[nonsense]
    file, card = folder / f"{part}.json", folder / "policy.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    if file != card:  # whoever made it would write its digest too
        tables = json.loads(card.read_text())
        card.write_text(json.dumps({**tables, "digests": {**tables["digests"], file.name: file_digest(file)}}))
    with pytest.raises(PolicyError, match=str(folder)) as caught:
        TrainedPolicy.load(folder)
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_an_observation_of_another_length_is_refused(policy_on_disk: WritePolicy) -> None:
    with pytest.raises(InvalidSettingError, match=r"has shape \(3,\); policy random expects"):
        TrainedPolicy.load(policy_on_disk()).act(np.zeros(3, np.float32))


def test_another_feeder_is_refused_before_the_first_second(policy_on_disk: WritePolicy, specs_dir: Path) -> None:
    policy = TrainedPolicy.load(policy_on_disk())
    other = load_experiment("ieee34")
    with pytest.raises(PolicyError, match="policy random sets batch sizes at default; the rollout has sites"):
        run_reference(base_scenario(other), other, load_assets(other, specs_dir), policy, n_steps=2)


def test_other_bus_phases_are_refused_at_the_start(policy_on_disk: WritePolicy) -> None:
    class Grid:
        v_index = (("elsewhere", 1),)

    controller = PolicyController(TrainedPolicy.load(policy_on_disk()), {"default": object()}, Grid())
    with pytest.raises(PolicyError, match="trained on another feeder: bus-phases"):
        controller.start()
