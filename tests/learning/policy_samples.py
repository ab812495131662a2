"""A policy that nobody trained, written like a trained one: what most tests of policies need."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from scenario_lib.learning.actor import Actor, Layer, Normalization, RunningStatistics
from scenario_lib.learning.environments import TrainingEnvironments, environment_facts
from scenario_lib.learning.policy import FORMAT_VERSION, PolicyCard, PolicyParts, TrainedRecord, TrainingLibrary
from scenario_lib.learning.settings import TrainingSettings, parse_settings

UNSEEN = TrainingLibrary("0" * 64, (TrainedRecord(999, "another", "1" * 64),))
WritePolicy = Callable[..., Path]


def settings_of(**environment: object) -> TrainingSettings:
    return parse_settings({"environment": environment}, "test")


def random_policy(world: TrainingEnvironments, trained_on: TrainingLibrary = UNSEEN, seed: int = 0) -> PolicyParts:
    """A policy of random weights, which moves batches up and down."""
    facts = environment_facts(world)
    rng = np.random.default_rng(seed)
    slots = facts.observation_config.obs_dim
    coupled = world.settings.environment.action == "coupled"
    sizes = facts.observation_config.feasible_batch_sizes.values()
    choices = (2 * min(map(len, sizes)) - 1,) if coupled else (3,) * facts.observation_config.n_models
    layers = tuple(
        Layer(
            tuple(tuple(row) for row in rng.normal(size=(outputs, inputs)).astype(np.float32).tolist()),
            tuple(rng.normal(size=outputs).astype(np.float32).tolist()),
        )
        for inputs, outputs in ((slots, 8), (8, sum(choices)))
    )
    statistics = RunningStatistics(
        tuple(rng.normal(size=slots).tolist()), tuple(rng.uniform(1, 2, slots).tolist()), 9.0
    )
    card = PolicyCard(
        FORMAT_VERSION,
        facts.feeder,
        facts.bus_phases,
        facts.sites,
        facts.observation_config,
        world.settings,
        trained_on,
        1000,
        {"scenario_lib": "0"},
        {},
    )
    normalization = Normalization(statistics, None, 5.0, 5.0, 1e-8)
    return PolicyParts(card, Actor(layers, "tanh", choices, coupled), normalization, lambda path: _no_model(path))


def _no_model(path: Path) -> None:
    path.write_bytes(b"not needed to act")
