"""Gymnasium environments that play the scenarios of a library.

`gymnasium.make("scenario_lib/BatchSize-v0", library=path)` is the short way; the parts are public too. Importing
scenario_lib puts the environments into Gymnasium's registry, without loading them.
"""

from typing import TYPE_CHECKING

import gymnasium as gym

from scenario_lib._lazy import lazy_names

if TYPE_CHECKING:
    from scenario_lib.env.action import absolute_action as absolute_action
    from scenario_lib.env.action import action_space as action_space
    from scenario_lib.env.action import decode_action as decode_action
    from scenario_lib.env.batch_size_env import BatchSizeEnv as BatchSizeEnv
    from scenario_lib.env.batch_size_env import SharedBatchSizeEnv as SharedBatchSizeEnv
    from scenario_lib.env.extensions import BLOCK_NAMES as BLOCK_NAMES
    from scenario_lib.env.extensions import INFO_NAMES as INFO_NAMES
    from scenario_lib.env.extensions import Extensions as Extensions
    from scenario_lib.env.factories import make_batch_size_env as make_batch_size_env
    from scenario_lib.env.factories import make_batch_size_vector_env as make_batch_size_vector_env
    from scenario_lib.env.factories import make_shared_batch_size_env as make_shared_batch_size_env
    from scenario_lib.env.factories import make_shared_batch_size_vector_env as make_shared_batch_size_vector_env
    from scenario_lib.env.figures import FigureContext as FigureContext
    from scenario_lib.env.figures import StepFigures as StepFigures
    from scenario_lib.env.observation import ObservationConfig as ObservationConfig
    from scenario_lib.env.observation import build_observation as build_observation
    from scenario_lib.env.observation import compute_bus_phase_groups as compute_bus_phase_groups
    from scenario_lib.env.observation import compute_zone_mask as compute_zone_mask
    from scenario_lib.env.reward import RewardConfig as RewardConfig
    from scenario_lib.env.reward import compute_reward as compute_reward
    from scenario_lib.env.simulator import Simulator as Simulator
    from scenario_lib.env.simulator import make_sim_fn as make_sim_fn

_HOME = {
    "BLOCK_NAMES": "extensions",
    "BatchSizeEnv": "batch_size_env",
    "Extensions": "extensions",
    "FigureContext": "figures",
    "INFO_NAMES": "extensions",
    "ObservationConfig": "observation",
    "RewardConfig": "reward",
    "SharedBatchSizeEnv": "batch_size_env",
    "Simulator": "simulator",
    "StepFigures": "figures",
    "absolute_action": "action",
    "action_space": "action",
    "build_observation": "observation",
    "compute_bus_phase_groups": "observation",
    "compute_reward": "reward",
    "compute_zone_mask": "observation",
    "decode_action": "action",
    "make_batch_size_env": "factories",
    "make_batch_size_vector_env": "factories",
    "make_shared_batch_size_env": "factories",
    "make_shared_batch_size_vector_env": "factories",
    "make_sim_fn": "simulator",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)

_ENTRY_POINTS = {
    "scenario_lib/BatchSize-v0": (
        "scenario_lib.env.factories:make_batch_size_env",
        "scenario_lib.env.factories:make_batch_size_vector_env",
    ),
    "scenario_lib/SharedBatchSize-v0": (
        "scenario_lib.env.factories:make_shared_batch_size_env",
        "scenario_lib.env.factories:make_shared_batch_size_vector_env",
    ),
}
"""By name, the function for a single environment and that for a vector environment."""


def register_envs() -> None:
    """Register what is not registered yet."""
    for name, (single, vector) in _ENTRY_POINTS.items():
        if name not in gym.registry:
            gym.register(name, entry_point=single, vector_entry_point=vector)
