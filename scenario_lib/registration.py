"""The environments in Gymnasium's registry; importing scenario_lib puts them there, without loading them."""

import gymnasium as gym

_ENTRY_POINTS = {
    "scenario_lib/BatchSize-v0": "scenario_lib.env.making:make_batch_size_env",
    "scenario_lib/SharedBatchSize-v0": "scenario_lib.env.making:make_shared_batch_size_env",
}


def register_envs() -> None:
    """Register what is not registered yet."""
    for name, entry_point in _ENTRY_POINTS.items():
        if name not in gym.registry:
            gym.register(name, entry_point=entry_point)
