"""The environments in Gymnasium's registry; importing scenario_lib puts them there, without loading them.

And what Gymnasium keeps of how one was made, in words that `spec.to_json()` can write.
"""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from fractions import Fraction
from os import PathLike, fspath
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

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


def plain_spec(spec: EnvSpec | None) -> EnvSpec | None:
    """The spec with paths, fractions and weights as texts and mappings, of which an equal environment is made."""
    if spec is None:
        return None
    return replace(spec, kwargs={name: _plain(value) for name, value in spec.kwargs.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Fraction):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else value
