"""The environments in Gymnasium's registry; importing scenario_lib puts them there, without loading them."""

import gymnasium as gym

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
