"""Copies of environments that play on by themselves with equal bits: what planners look ahead with.

What Gymnasium keeps of how an environment was made, in words that `spec.to_json()` can write.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from os import PathLike, fspath
from typing import Any, TypeVar

from gymnasium.envs.registration import EnvSpec

from scenario_lib.env.reward import RewardConfig

Env = TypeVar("Env")


def deep_copied(env: Env, shared: Iterable[object], memo: dict[int, Any]) -> Env:
    """A deep copy of an environment that shares some objects with it, all of which playing leaves unchanged."""
    memo.update((id(one), one) for one in shared)
    twin = object.__new__(type(env))
    memo[id(env)] = twin
    vars(twin).update({name: copy.deepcopy(value, memo) for name, value in vars(env).items()})
    return twin


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
