"""From an action to batch sizes: the one place, used by environments and by controllers that run a policy."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from scenario_lib.errors import InvalidSettingError

ACTION_MODES = ("delta", "coupled")
"""delta: each model one feasible size down, the same, or up. coupled: all models move by one number of sizes."""


def action_space(
    action_mode: str, model_labels: Sequence[str], feasible_batch_sizes: Mapping[str, Sequence[int]]
) -> gym.spaces.Space[Any]:
    """MultiDiscrete [3] per model for delta, Discrete(2k + 1) for coupled (k: fewest feasible sizes, less one).

    Raises:
        InvalidSettingError: No such mode.
    """
    _require_mode(action_mode)
    if action_mode == "delta":
        return gym.spaces.MultiDiscrete([3] * len(model_labels))
    return gym.spaces.Discrete(2 * _largest_shift(model_labels, feasible_batch_sizes) + 1)


def decode_action(
    action: Any,
    action_mode: str,
    model_labels: Sequence[str],
    feasible_batch_sizes: Mapping[str, Sequence[int]],
    prev_batch: Mapping[str, int],
    coupled_max_shift: int = 6,
) -> dict[str, int]:
    """Batch sizes that an action asks for, clamped to the feasible ones.

    A previous batch that is not feasible counts as the middle one. Integers of any width, Python ints and arrays of no
    dimension are accepted, because trainers return them.

    Args:
        action: One number per model (0 down, 1 same, 2 up), or one number for all (`coupled_max_shift` is no move).
        action_mode: "delta" or "coupled".
        coupled_max_shift: The largest move of the coupled mode; capped by the fewest feasible sizes, less one.

    Raises:
        InvalidSettingError: No such mode, a wrong shape, a float, or a number out of range.
    """
    _require_mode(action_mode)
    if action_mode == "delta":
        moves = _integers(action, (len(model_labels),), 2) - 1
    else:
        most = min(coupled_max_shift, _largest_shift(model_labels, feasible_batch_sizes))
        moves = np.full(len(model_labels), int(_integers(action, (), 2 * most)) - most)
    return {
        label: _moved(feasible_batch_sizes[label], prev_batch.get(label), int(move))
        for label, move in zip(model_labels, moves, strict=True)
    }


def _require_mode(action_mode: str) -> None:
    if action_mode not in ACTION_MODES:
        raise InvalidSettingError(f"action_mode is {action_mode!r}; expected one of {', '.join(ACTION_MODES)}")


def _largest_shift(model_labels: Sequence[str], feasible_batch_sizes: Mapping[str, Sequence[int]]) -> int:
    return min(len(feasible_batch_sizes[label]) for label in model_labels) - 1


def _integers(action: Any, shape: tuple[int, ...], highest: int) -> Any:
    values = np.asarray(action)
    if values.dtype.kind not in "iu":
        raise InvalidSettingError(f"action is {action!r}; expected whole numbers from 0 to {highest}")
    if values.shape != shape:
        raise InvalidSettingError(f"action has shape {values.shape}; expected {shape}")
    if np.any(values < 0) or np.any(values > highest):
        raise InvalidSettingError(f"action is {action!r}; expected whole numbers from 0 to {highest}")
    return values.astype(np.int64)


def _moved(feasible: Sequence[int], current: int | None, move: int) -> int:
    sizes = sorted(feasible)
    position = sizes.index(current) if current in sizes else len(sizes) // 2
    return sizes[min(max(position + move, 0), len(sizes) - 1)]
