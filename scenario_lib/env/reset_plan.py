"""What `reset` of an environment, or of many in lockstep, is asked for."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.checks import refuse, require_known

SINGLE_OPTIONS = ("scenario",)
VECTOR_OPTIONS = ("scenario", "reset_mask")


def known_options(options: Mapping[str, Any] | None, known: Sequence[str]) -> Mapping[str, Any]:
    """The options of `reset`, which would be without effect under another name.

    Raises:
        InvalidSettingError: No mapping.
        UnknownNameError: There is no such option.
    """
    if options is not None and not isinstance(options, Mapping):
        raise refuse("options", options, f"a mapping with some of {', '.join(known)}")
    given = options or {}
    if "seed" in given:
        raise refuse("options['seed']", given["seed"], "none; a seed is an argument of its own, reset(seed=...)")
    require_known("options", given, known)
    return given


def whole_seed(field: str, value: Any) -> int | None:
    """A seed as Python's int; None is none.

    Raises:
        InvalidSettingError: No whole number of at least 0.
    """
    if value is None:
        return None
    try:
        seed = -1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        seed = -1
    if seed < 0:
        raise refuse(field, value, "a seed, that is a whole number of at least 0")
    return seed


def is_listed(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a value is several; text and an array of no dimension are one."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """Which environments begin an episode, and of which scenario.

    Attributes:
        mask: Shape (N,).
        scenarios: Seed of the record that each is to play, None for a drawn one.
    """

    mask: NDArray[np.bool_]
    scenarios: tuple[int | None, ...]

    @classmethod
    def of(cls, options: Mapping[str, Any] | None, n: int) -> "ResetPlan":
        """Read the options of `reset`.

        Raises:
            InvalidSettingError: A mask that is no array of N booleans with one True, another number of scenarios, or
                one that is no whole number.
            UnknownNameError: There is no such option.
        """
        options = known_options(options, VECTOR_OPTIONS)
        return cls(_mask(options.get("reset_mask"), n), _scenarios(options.get("scenario"), n))


def _mask(wanted: Any, n: int) -> NDArray[np.bool_]:
    if wanted is None:
        return np.ones(n, bool)
    if not isinstance(wanted, np.ndarray) or wanted.dtype != np.bool_ or wanted.shape != (n,) or not wanted.any():
        raise InvalidSettingError(
            f"options['reset_mask'] is {wanted!r}; expected a numpy array of {n} booleans, at least one of them True"
        )
    return wanted.copy()


def _scenarios(wanted: Any, n: int) -> tuple[int | None, ...]:
    if not is_listed(wanted):
        return (whole_seed("options['scenario']", wanted),) * n
    if len(wanted) != n:
        raise InvalidSettingError(
            f"options['scenario'] is {wanted!r}; expected a seed, or one (or None) for each of {n}"
        )
    return tuple(whole_seed(f"options['scenario'][{i}]", seed) for i, seed in enumerate(wanted))
