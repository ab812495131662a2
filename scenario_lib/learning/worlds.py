"""The environments that a policy is trained in, and the facts about them that are stored with the policy.

`make_vector_env` is the only place that makes environments for training.
"""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from scenario_lib.env.making import (
    agent_site,
    make_batch_size_env,
    make_shared_batch_size_env,
    observation_config,
    open_ingredients,
)
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.learning.settings import TrainingSettings


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
    """Environments that step together, as a Stable-Baselines3 `VecEnv`.

    Each has a process of its own, because OpenDSS is one engine per process.

    Args:
        seed: The base seed, which all workers share: their streams are keyed by it and by their position.
    """
    from stable_baselines3.common.vec_env import SubprocVecEnv

    # Never "fork": it would copy the threads of PyTorch and the state of OpenDSS.
    methods = multiprocessing.get_all_start_methods()
    method = "forkserver" if "forkserver" in methods else "spawn"
    count = world.settings.envs
    return SubprocVecEnv([partial(_make_env, world, (i, count), seed) for i in range(count)], start_method=method)


@contextmanager
def closing_workers(environments: Any) -> Iterator[None]:
    """Close environments in the end; after an error, end their processes.

    Stable-Baselines3's own `close` would then wait for answers that were read already, or that never come.
    """
    try:
        yield
    except BaseException:
        for process in getattr(environments.unwrapped, "processes", ()):
            process.terminate()
        raise
    environments.close()


def _make_env(world: World, worker: tuple[int, int], seed: int) -> gym.Env[Any, Any]:
    chosen = world.settings.environment
    common: dict[str, Any] = {
        "observation": chosen.observation,
        "action": chosen.action,
        "reward": world.settings.reward,
        "truncate_episode": chosen.truncate_episode,
        "ofo_baseline": chosen.ofo_baseline,
        "coverage": chosen.coverage,
        "worker": worker,
        "system": world.system,
    }
    if chosen.shared:
        return SeededOnce(make_shared_batch_size_env(world.library, world.specs_dir, **common), seed)
    return SeededOnce(make_batch_size_env(world.library, world.specs_dir, site=chosen.site, **common), seed)


class SeededOnce(gym.Wrapper[Any, Any, Any, Any]):
    """Gives the base seed to the first reset; Stable-Baselines3 would give each worker another, seed + i."""

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env)
        self._seed: int | None = seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset; a seed given here is not used."""
        del seed
        first, self._seed = self._seed, None
        return self.env.reset(seed=first, options=options)
