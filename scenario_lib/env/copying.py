"""Copies of environments that play on by themselves with equal bits: what planners look ahead with."""

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

Env = TypeVar("Env")


def deep_copied(env: Env, shared: Iterable[object], memo: dict[int, Any]) -> Env:
    """A deep copy of an environment that shares some objects with it, all of which playing leaves unchanged."""
    memo.update((id(one), one) for one in shared)
    twin = object.__new__(type(env))
    memo[id(env)] = twin
    vars(twin).update({name: copy.deepcopy(value, memo) for name, value in vars(env).items()})
    return twin
