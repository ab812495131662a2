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

ACTION_MODES = ("delta", "coupled", "absolute")
"""delta: each model one feasible size down, the same, or up. coupled: all models move by one number of sizes. absolute:
each model's place among its feasible sizes, so that any trajectory of batch sizes can be played."""


def action_space(
    action_mode: str, model_labels: Sequence[str], feasible_batch_sizes: Mapping[str, Sequence[int]]
) -> gym.spaces.Space[Any]:
    """MultiDiscrete [3] per model for delta, Discrete(2k + 1) for coupled (k: fewest feasible sizes, less one),
    MultiDiscrete [number of feasible sizes] per model for absolute.

    Raises:
        InvalidSettingError: No such mode.
    """
    require_mode(action_mode)
    if action_mode == "delta":
        return gym.spaces.MultiDiscrete([3] * len(model_labels))
    if action_mode == "absolute":
        return gym.spaces.MultiDiscrete([len(feasible_batch_sizes[label]) for label in model_labels])
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
        action: One number per model (0 down, 1 same, 2 up; or its place among the feasible sizes, rising), or one
            number for all (`coupled_max_shift` is no move).
        action_mode: One of `ACTION_MODES`.
        coupled_max_shift: The largest move of the coupled mode; capped by the fewest feasible sizes, less one, which
            None means.

    Raises:
        InvalidSettingError: No such mode, a wrong shape, a float, or a number out of range.
    """
    reader = ActionReader.of(action_mode, model_labels, feasible_batch_sizes, coupled_max_shift)
    numbers = np.broadcast_to(reader.read(action), len(model_labels)).tolist()
    if reader.absolute:
        return {
            label: sorted(feasible_batch_sizes[label])[place]
            for label, place in zip(model_labels, numbers, strict=True)
        }
    return {
        label: _moved(feasible_batch_sizes[label], prev_batch.get(label), move)
        for label, move in zip(model_labels, numbers, strict=True)
    }


def absolute_action(
    batch_sizes: Mapping[str, int], feasible_batch_sizes: Mapping[str, Sequence[int]]
) -> NDArray[np.int64]:
    """The action of the absolute mode that asks for these batch sizes, in the order of `feasible_batch_sizes`.

    Raises:
        InvalidSettingError: A batch size that is not feasible.
    """
    places = []
    for label, feasible in feasible_batch_sizes.items():
        sizes = sorted(feasible)
        if batch_sizes[label] not in sizes:
            raise InvalidSettingError(f"batch_sizes: {batch_sizes[label]} of {label}; expected one of {sizes}")
        places.append(sizes.index(batch_sizes[label]))
    return np.array(places, np.int64)


@dataclass(frozen=True, slots=True)
class ActionReader:
    """From actions to numbers for each model: moves, in feasible sizes up or down, or places among the feasible sizes.

    Attributes:
        shape: Of one action.
        still: The number that means no move; twice it is the largest. 0 if numbers are places.
        n_feasible: Feasible sizes per model, if numbers are places; else empty.
    """

    shape: tuple[int, ...]
    still: int
    n_feasible: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        action_mode: str,
        model_labels: Sequence[str],
        feasible_batch_sizes: Mapping[str, Sequence[int]],
        coupled_max_shift: int | None = None,
    ) -> "ActionReader":
        """The reader of a mode, see `decode_action`; without `coupled_max_shift` that of `action_space`."""
        require_mode(action_mode)
        if action_mode == "delta":
            return cls((len(model_labels),), 1)
        if action_mode == "absolute":
            sizes = tuple(len(feasible_batch_sizes[label]) for label in model_labels)
            return cls((len(model_labels),), 0, sizes)
        largest = _largest_shift(model_labels, feasible_batch_sizes)
        return cls((), largest if coupled_max_shift is None else min(coupled_max_shift, largest))

    @property
    def absolute(self) -> bool:
        """Numbers are places rather than moves."""
        return bool(self.n_feasible)

    def read(self, action: Any) -> NDArray[np.int64]:
        """Numbers of one action, of its shape.

        Raises:
            InvalidSettingError: A wrong shape, a float, or a number out of range.
        """
        return self._numbers(action, self.shape)

    def read_all(self, actions: Any, count: int) -> NDArray[np.int64]:
        """Numbers of `count` actions, one per row, shape (count, 1) or (count, models)."""
        numbers = self._numbers(actions, (count, *self.shape))
        return numbers if self.shape else numbers[:, None]

    def _numbers(self, action: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
        values = np.asarray(action)
        if values.dtype.kind not in "iu":
            raise self._refused(action)
        if values.shape != shape:
            raise InvalidSettingError(f"action has shape {values.shape}; expected {shape}")
        whole = values.astype(np.int64)
        if self.n_feasible:
            if np.any((whole < 0) | (whole >= self.n_feasible)):
                raise self._refused(action)
        elif _largest(whole) > 2 * self.still:
            raise self._refused(action)
        return whole - self.still

    def _refused(self, action: Any) -> InvalidSettingError:
        if self.n_feasible:
            return InvalidSettingError(f"action is {action!r}; expected whole numbers from 0, below {self.n_feasible}")
        return InvalidSettingError(f"action is {action!r}; expected whole numbers from 0 to {2 * self.still}")


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
