"""Gymnasium environments that play the scenarios of a library.

`gymnasium.make("scenario_lib/BatchSize-v0", library=path)` is the short way; the parts are public too.
"""

from scenario_lib.env.action import action_space, decode_action
from scenario_lib.env.batch_size_env import BatchSizeEnv, SharedBatchSizeEnv
from scenario_lib.env.making import make_batch_size_env, make_shared_batch_size_env
from scenario_lib.env.making_vector import make_batch_size_vector_env, make_shared_batch_size_vector_env
from scenario_lib.env.observation import (
    ObservationConfig,
    build_observation,
    compute_bus_phase_groups,
    compute_zone_mask,
)
from scenario_lib.env.reward import RewardConfig, compute_reward
from scenario_lib.env.simulation import Stepper, make_sim_fn

__all__ = [
    "BatchSizeEnv",
    "ObservationConfig",
    "RewardConfig",
    "SharedBatchSizeEnv",
    "Stepper",
    "action_space",
    "build_observation",
    "compute_bus_phase_groups",
    "compute_reward",
    "compute_zone_mask",
    "decode_action",
    "make_batch_size_env",
    "make_batch_size_vector_env",
    "make_shared_batch_size_env",
    "make_shared_batch_size_vector_env",
    "make_sim_fn",
]
