"""The environments that a policy is trained in, and the facts about them that are stored with the policy.

`make_vector_env` is the only place that makes environments for training.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib._files import file_digest
from scenario_lib.env.factories import (
    agent_site,
    make_batch_size_env,
    make_batch_size_vector_env,
    make_shared_batch_size_env,
    make_shared_batch_size_vector_env,
    observation_config,
    open_environment_parts,
)
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.errors import MissingExtraError
from scenario_lib.learning.policy import TrainedRecord, TrainingLibrary
from scenario_lib.learning.settings import TrainingSettings
from scenario_lib.library.layout import METADATA
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.simulation.engines import REFERENCE

_PASSED_ON = ("observation", "action", "truncate_episode", "ofo_baseline", "coverage", "engine")
"""Settings of the environment that are its arguments by the same name."""


@dataclass(frozen=True, slots=True)
class TrainingEnvironments:
    """Where training takes place.

    Attributes:
        library: Path of the library.
        specs_dir: Spec cache that it was built on; None means the shipped one.
        system: Experiment's TOML file, for a library on a feeder of the user's own.
    """

    library: Path
    specs_dir: Path | None
    system: str | None
    settings: TrainingSettings


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """What a policy needs to know of the environments that it was trained in; see `PolicyCard`."""

    feeder: str
    bus_phases: tuple[tuple[str, int], ...]
    sites: dict[str, tuple[str, ...]]
    observation_config: ObservationConfig


def environment_facts(training: TrainingEnvironments) -> EnvironmentFacts:
    """What is stored with a policy of what it is trained in.

    Raises:
        LibraryError, InvalidSettingError, UnknownNameError: Library, observation mode or site cannot be used.
    """
    made = open_environment_parts(training.library, training.specs_dir, training.system)
    chosen = training.settings.environment
    sites = made.experiment.sites if chosen.shared else (agent_site(made.experiment, chosen.site),)
    return EnvironmentFacts(
        feeder=made.experiment.name,
        bus_phases=made.bus_phases,
        sites={site.name: tuple(model.label for model in site.models) for site in sites},
        observation_config=observation_config(made.experiment, made.bus_phases, chosen.observation, sites),
    )


def base_seed(seed: int, steps_done: int) -> int:
    """The seed of the environments of a run, or of its continuation, which plays other scenarios first."""
    if steps_done == 0:
        return seed
    return int(np.random.SeedSequence(seed, spawn_key=(steps_done,)).generate_state(1, np.uint32)[0])


def make_vector_env(training: TrainingEnvironments, seed: int) -> Any:
    """Environments that step together in this process, as a Stable-Baselines3 `VecEnv`.

    On the compiled engine they step in lockstep, with coming episodes compiled meanwhile; on the reference engine there
    is one, as OpenDSS simulates one feeder per process.

    Args:
        seed: The base seed, by which the environments' streams are keyed.
    """
    arguments = _environment_arguments(training)
    if training.settings.environment.engine == REFERENCE:
        return _alone(training, arguments, seed)
    from scenario_lib.env.sb3 import BatchSizeVecEnv

    make = make_shared_batch_size_vector_env if training.settings.environment.shared else make_batch_size_vector_env
    given = {**arguments, "autoreset_mode": "SameStep", "prefetch": True}
    return BatchSizeVecEnv(make(training.settings.envs, training.library, training.specs_dir, **given), seed)


def _alone(training: TrainingEnvironments, arguments: dict[str, Any], seed: int) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv

    make = make_shared_batch_size_env if training.settings.environment.shared else make_batch_size_env
    environments = DummyVecEnv([lambda: make(training.library, training.specs_dir, worker=(0, 1), **arguments)])
    environments.seed(seed)
    return environments


def _environment_arguments(training: TrainingEnvironments) -> dict[str, Any]:
    chosen = training.settings.environment
    arguments = {name: getattr(chosen, name) for name in _PASSED_ON}
    if not chosen.shared:
        arguments["site"] = chosen.site
    return {**arguments, "reward": training.settings.reward, "system": training.system}


def require_extra() -> None:
    """Refuse to train without the extra.

    Raises:
        MissingExtraError: Naming the command that installs it.
    """
    for name in ("stable_baselines3", "torch"):
        if find_spec(name) is None:
            raise MissingExtraError(f"training needs {name}, which is not here: pip install 'scenario-lib[train]'")


def training_library(library: ScenarioLibrary) -> TrainingLibrary:
    """What identifies a library and each of its records."""
    records = tuple(record_identity(library, record) for record in library)
    return TrainingLibrary(file_digest(library.path / METADATA), records)


def record_identity(library: ScenarioLibrary, record: ScenarioRecord) -> TrainedRecord:
    """Seed, recipe and digest of a record; computed where its library does not say."""
    if record.digests is not None:
        return TrainedRecord(record.seed, record.digests.recipe, record.digests.scenario_digest)
    return TrainedRecord(record.seed, library.recipe_of(record).id, scenario_digest(library.materialize(record)))
