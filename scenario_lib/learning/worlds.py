"""The environments that a policy is trained in, and the facts about them that are stored with the policy.

`make_vector_env` is the only place that makes environments for training.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib.env.making import (
    agent_site,
    make_batch_size_env,
    make_shared_batch_size_env,
    observation_config,
    open_ingredients,
)
from scenario_lib.env.making_vector import make_batch_size_vector_env, make_shared_batch_size_vector_env
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.learning.settings import TrainingSettings
from scenario_lib.simulation.engines import REFERENCE

_PASSED_ON = ("observation", "action", "truncate_episode", "ofo_baseline", "coverage", "engine")
"""Settings of the environment that are its arguments by the same name."""


@dataclass(frozen=True, slots=True)
class World:
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
class WorldFacts:
    """What a policy needs to know of the world that it was trained in; see `PolicyCard`."""

    feeder: str
    bus_phases: tuple[tuple[str, int], ...]
    sites: dict[str, tuple[str, ...]]
    observation_config: ObservationConfig


def world_facts(world: World) -> WorldFacts:
    """Facts of a world.

    Raises:
        LibraryError, InvalidSettingError, UnknownNameError: Library, observation mode or site cannot be used.
    """
    made = open_ingredients(world.library, world.specs_dir, world.system)
    chosen = world.settings.environment
    sites = made.experiment.sites if chosen.shared else (agent_site(made.experiment, chosen.site),)
    return WorldFacts(
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


def make_vector_env(world: World, seed: int) -> Any:
    """Environments that step together in this process, as a Stable-Baselines3 `VecEnv`.

    On the compiled engine they step in lockstep, with coming episodes compiled meanwhile; on the reference engine there
    is one, as OpenDSS simulates one feeder per process.

    Args:
        seed: The base seed, by which the environments' streams are keyed.
    """
    arguments = _environment_arguments(world)
    if world.settings.environment.engine == REFERENCE:
        return _alone(world, arguments, seed)
    from scenario_lib.env.sb3 import BatchSizeVecEnv

    make = make_shared_batch_size_vector_env if world.settings.environment.shared else make_batch_size_vector_env
    given = {**arguments, "autoreset_mode": "SameStep", "prefetch": True}
    return BatchSizeVecEnv(make(world.settings.envs, world.library, world.specs_dir, **given), seed)


def _alone(world: World, arguments: dict[str, Any], seed: int) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv

    make = make_shared_batch_size_env if world.settings.environment.shared else make_batch_size_env
    environments = DummyVecEnv([lambda: make(world.library, world.specs_dir, worker=(0, 1), **arguments)])
    environments.seed(seed)
    return environments


def _environment_arguments(world: World) -> dict[str, Any]:
    chosen = world.settings.environment
    arguments = {name: getattr(chosen, name) for name in _PASSED_ON}
    if not chosen.shared:
        arguments["site"] = chosen.site
    return {**arguments, "reward": world.settings.reward, "system": world.system}
