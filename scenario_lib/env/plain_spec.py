"""What Gymnasium keeps of how an environment was made, in words that `spec.to_json()` can write."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from os import PathLike, fspath
from typing import Any

from gymnasium.envs.registration import EnvSpec

from scenario_lib.env.reward import RewardConfig


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
    if isinstance(value, RewardConfig):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else value
