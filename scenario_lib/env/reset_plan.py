"""What `reset` of a vector environment is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError


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
    def of(cls, options: Mapping[str, Any], n: int) -> "ResetPlan":
        """Read the options of `reset`.

        Raises:
            InvalidSettingError: A mask that is no array of N booleans with one True, or another number of scenarios.
        """
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
    if wanted is None or isinstance(wanted, int | np.integer):
        return (None if wanted is None else int(wanted),) * n
    if not isinstance(wanted, Sequence | np.ndarray) or isinstance(wanted, str) or len(wanted) != n:
        raise InvalidSettingError(
            f"options['scenario'] is {wanted!r}; expected a seed, or one (or None) for each of {n}"
        )
    return tuple(None if seed is None else int(seed) for seed in wanted)
