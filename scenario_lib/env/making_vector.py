"""Vector environments for people: from a library's path and a few words to N environments in lockstep.

`gymnasium.make_vec(id, num_envs=N, vectorization_mode="vector_entry_point", library=path)` calls these functions.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from scenario_lib.env.batch_size_env import choose_agent_site, choose_mapped_sites
from scenario_lib.env.game import ChooseSites
from scenario_lib.env.making import (
    Ingredients,
    agent_site,
    common_settings,
    observation_config,
    open_ingredients,
    simulation_of,
    site_model_mapping,
)
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.env.picking import Library
from scenario_lib.env.reward import RewardConfig
from scenario_lib.env.settings import EnvSettings
from scenario_lib.feeders.checks import refuse

if TYPE_CHECKING:
    from scenario_lib.env.vector_env import BatchSizeVectorEnv

_VECTOR_SETTINGS = ("autoreset_mode", "threads", "prefetch", "max_episode_steps")


def make_batch_size_vector_env(  # noqa: PLR0913 - the words of `make_batch_size_env`, and how many
    num_envs: int,
    library: str | PathLike[str] | Library,
    specs_dir: str | PathLike[str] | None = None,
    observation: str = "full-voltage",
    action: str = "delta",
    reward: RewardConfig | Mapping[str, Any] | None = None,
    site: str | None = None,
    **playing: Any,
) -> "BatchSizeVectorEnv":
    """N environments of `make_batch_size_env` in lockstep.

    Args:
        num_envs: N.
        playing: As there, without the reference engine; and the fields of `VectorSettings`: `autoreset_mode`
            ("NextStep", "SameStep" or "Disabled"), `threads` (1), `prefetch` (False), `max_episode_steps` (None).
    """
    made = open_ingredients(library, specs_dir, playing.pop("system", None))
    agent = agent_site(made.experiment, site)
    config = observation_config(made.experiment, made.bus_phases, observation, (agent,))
    given = {**playing, "num_envs": num_envs, "action": action, "reward": reward}
    return _vector_env(made, config, partial(choose_agent_site, agent.name), given)


def make_shared_batch_size_vector_env(
    num_envs: int,
    library: str | PathLike[str] | Library,
    specs_dir: str | PathLike[str] | None = None,
    observation: str = "full-voltage",
    action: str = "delta",
    reward: RewardConfig | Mapping[str, Any] | None = None,
    **playing: Any,
) -> "BatchSizeVectorEnv":
    """N environments of `make_shared_batch_size_env` in lockstep; see `make_batch_size_vector_env`."""
    made = open_ingredients(library, specs_dir, playing.pop("system", None))
    config = observation_config(made.experiment, made.bus_phases, observation, made.experiment.sites)
    given = {**playing, "num_envs": num_envs, "action": action, "reward": reward}
    return _vector_env(made, config, partial(choose_mapped_sites, site_model_mapping(made.experiment)), given)


def _vector_env(
    made: Ingredients, config: ObservationConfig, choose_sites: ChooseSites, given: dict[str, Any]
) -> "BatchSizeVectorEnv":
    from scenario_lib.env.compiled_world import CompiledWorld
    from scenario_lib.env.vector_env import BatchSizeVectorEnv, VectorSettings

    engine = given.get("engine")
    world = simulation_of(made, given)
    if not isinstance(world, CompiledWorld):
        raise refuse("engine", engine, "the compiled engine; OpenDSS simulates one feeder per process")
    chosen = {name: given.pop(name) for name in _VECTOR_SETTINGS if name in given}
    vector = VectorSettings(given.pop("num_envs"), **chosen)
    common = common_settings(made, given.pop("action"), given.pop("reward"), given)
    settings = EnvSettings(**{**common, "dt_ctrl": Fraction(common.get("dt_ctrl", 1))})
    return BatchSizeVectorEnv(world, config, choose_sites, settings, vector)
