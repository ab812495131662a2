"""From an action to batch sizes: the one place, used by environments and by controllers that run a policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError
from scenario_lib.simulation.compiled.step_formulas import moved

_FEW = 16

ACTION_MODES = ("delta", "coupled")
"""delta: each model one feasible size down, the same, or up. coupled: all models move by one number of sizes."""


def action_space(
    action_mode: str, model_labels: Sequence[str], feasible_batch_sizes: Mapping[str, Sequence[int]]
) -> gym.spaces.Space[Any]:
    """MultiDiscrete [3] per model for delta, Discrete(2k + 1) for coupled (k: fewest feasible sizes, less one).

    Raises:
        InvalidSettingError: No such mode.
    """
    require_mode(action_mode)
    if action_mode == "delta":
        return gym.spaces.MultiDiscrete([3] * len(model_labels))
    return gym.spaces.Discrete(2 * _largest_shift(model_labels, feasible_batch_sizes) + 1)


def decode_action(
    action: Any,
    action_mode: str,
    model_labels: Sequence[str],
    feasible_batch_sizes: Mapping[str, Sequence[int]],
    prev_batch: Mapping[str, int],
    coupled_max_shift: int | None = 6,
) -> dict[str, int]:
    """Batch sizes that an action asks for, clamped to the feasible ones.

    A previous batch that is not feasible counts as the middle one. Integers of any width, Python ints and arrays of no
    dimension are accepted, because trainers return them.

    Args:
        action: One number per model (0 down, 1 same, 2 up), or one number for all (`coupled_max_shift` is no move).
        action_mode: "delta" or "coupled".
        coupled_max_shift: The largest move of the coupled mode; capped by the fewest feasible sizes, less one, which
            None means.

    Raises:
        InvalidSettingError: No such mode, a wrong shape, a float, or a number out of range.
    """
    reader = MoveReader.of(action_mode, model_labels, feasible_batch_sizes, coupled_max_shift)
    moves = np.broadcast_to(reader.read(action), len(model_labels))
    return {
        label: _moved(feasible_batch_sizes[label], prev_batch.get(label), int(move))
        for label, move in zip(model_labels, moves, strict=True)
    }


@dataclass(frozen=True, slots=True)
class MoveReader:
    """From actions to moves, in feasible sizes up or down.

    Attributes:
        shape: Of one action.
        still: The number that means no move; twice it is the largest.
    """

    shape: tuple[int, ...]
    still: int

    @classmethod
    def of(
        cls,
        action_mode: str,
        model_labels: Sequence[str],
        feasible_batch_sizes: Mapping[str, Sequence[int]],
        coupled_max_shift: int | None = None,
    ) -> "MoveReader":
        """The reader of a mode, see `decode_action`; without `coupled_max_shift` that of `action_space`."""
        require_mode(action_mode)
        if action_mode == "delta":
            return cls((len(model_labels),), 1)
        largest = _largest_shift(model_labels, feasible_batch_sizes)
        return cls((), largest if coupled_max_shift is None else min(coupled_max_shift, largest))

    def read(self, action: Any) -> NDArray[np.int64]:
        """Moves of one action, of its shape.

        Raises:
            InvalidSettingError: A wrong shape, a float, or a number out of range.
        """
        return self._moves(action, self.shape)

    def read_all(self, actions: Any, count: int) -> NDArray[np.int64]:
        """Moves of `count` actions, one per row, shape (count, 1) or (count, models)."""
        moves = self._moves(actions, (count, *self.shape))
        return moves if self.shape else moves[:, None]

    def _moves(self, action: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
        values = np.asarray(action)
        if values.dtype.kind not in "iu":
            raise InvalidSettingError(f"action is {action!r}; expected whole numbers from 0 to {2 * self.still}")
        if values.shape != shape:
            raise InvalidSettingError(f"action has shape {values.shape}; expected {shape}")
        whole = values.astype(np.int64)
        if _largest(whole) > 2 * self.still:
            raise InvalidSettingError(f"action is {action!r}; expected whole numbers from 0 to {2 * self.still}")
        return whole - self.still


def _largest(numbers: NDArray[np.int64]) -> int:
    """The largest, negative ones counting as larger than any; few numbers are faster looked at in Python."""
    if numbers.ndim == 1 and numbers.size <= _FEW:
        listed = numbers.tolist()
        return max(listed) if min(listed) >= 0 else 2**63
    return int(numbers.view(np.uint64).max())


def require_mode(action_mode: str) -> None:
    """Refuse a mode that does not exist."""
    if action_mode not in ACTION_MODES:
        raise InvalidSettingError(f"action_mode is {action_mode!r}; expected one of {', '.join(ACTION_MODES)}")


def _largest_shift(model_labels: Sequence[str], feasible_batch_sizes: Mapping[str, Sequence[int]]) -> int:
    return min(len(feasible_batch_sizes[label]) for label in model_labels) - 1


def _moved(feasible: Sequence[int], current: int | None, move: int) -> int:
    sizes = sorted(feasible)
    position = sizes.index(current) if current in sizes else len(sizes) // 2
    return sizes[moved(position, move, len(sizes))]
