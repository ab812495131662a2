"""Infos of many environments as Gymnasium stacks them: arrays by name, each with a mask `_name` of who has it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.reward import STATISTICS, TERMS

Bools = NDArray[np.bool_]
Infos = dict[str, Any]


class VectorInfos:
    """Makes infos of N environments.

    Args:
        n: Number of environments.
        labels: Observed models.
    """

    def __init__(self, n: int, labels: Sequence[str]) -> None:
        self._n, self._labels = n, labels

    def of_episodes(
        self, mask: Bools, scenarios: Sequence[int | None], time_s: NDArray[np.float64], batch_size: NDArray[np.int64]
    ) -> Infos:
        """What every info has."""
        infos: Infos = {}
        _put(infos, "scenario", _scenario_array(scenarios, mask), mask)
        _put(infos, "time_s", np.where(mask, time_s, 0.0), mask)
        _put(infos, "batch_sizes", _columns(self._labels, batch_size, mask), mask)
        return infos

    def add_reward(
        self, infos: Infos, mask: Bools, failed: Bools, terms: NDArray[np.float64], statistics: NDArray[np.float64]
    ) -> None:
        """Reward terms and voltage statistics; where the power flow failed there are none."""
        if not mask.any():
            return
        known = mask & ~failed
        _put(infos, "reward_components", _columns(TERMS, terms, known), mask)
        _put(infos, "voltage_stats", _columns(STATISTICS, statistics, known), mask)

    def add_failures(self, infos: Infos, failures: Mapping[int, str]) -> None:
        """What went wrong, by environment."""
        messages, mask = np.full(self._n, None, object), np.zeros(self._n, bool)
        for i, message in failures.items():
            messages[i], mask[i] = message, True
        _put(infos, "power_flow", messages, mask)

    def merged(self, infos: Infos, others: Infos, mask: Bools) -> Infos:
        """The infos with those of `others` where the mask says so."""
        out = _without_empty(infos)
        for name, value in others.items():
            out[name] = self._chosen(infos.get(name), value, mask)
        return out

    def with_final(self, infos: Infos, final_obs: NDArray[Any], begun: Infos, ended: Bools) -> Infos:
        """Infos of a step in which some episodes ended and others began in their place.

        Args:
            infos: Of the step, which become `final_info` where an episode ended.
            begun: Of the new episodes.
        """
        out = {name: _restricted(value, ~ended) for name, value in infos.items()}
        out = self.merged(out, begun, ended)
        _put(out, "final_obs", final_obs, ended)
        _put(out, "final_info", _without_empty({name: _restricted(value, ended) for name, value in infos.items()}), ended)
        return out

    def _chosen(self, held: Any, value: Any, mask: Bools) -> Any:
        if held is None:
            return value
        if isinstance(value, dict):
            return self.merged(held, value, mask)
        return np.where(mask, value, held)


def _put(infos: Infos, name: str, value: Any, mask: Bools) -> None:
    infos[name], infos[f"_{name}"] = value, mask.copy()


def _columns(names: Sequence[str], table: NDArray[Any], mask: Bools) -> Infos:
    """The columns of a table, 0 outside the mask; none if the mask is empty."""
    infos: Infos = {}
    if mask.any():
        fresh = np.where(mask, table.T, table.dtype.type(0))
        for name, column in zip(names, fresh, strict=True):
            _put(infos, name, column, mask)
    return infos


def _scenario_array(scenarios: Sequence[int | None], mask: Bools) -> NDArray[Any]:
    if any(seed is None for seed in scenarios):
        return np.array([None] * len(scenarios), object)
    return np.where(mask, np.array(scenarios, np.int64), 0)


def _restricted(value: Any, mask: Bools) -> Any:
    """Only what the mask says; masks become False elsewhere and values 0 or None."""
    if isinstance(value, dict):
        return _without_empty({name: _restricted(inner, mask) for name, inner in value.items()})
    if value.dtype == object:
        return np.where(mask, value, None)
    return np.where(mask, value, value.dtype.type(0))


def _without_empty(infos: Infos) -> Infos:
    """Names that somebody has."""
    return {name: value for name, value in infos.items() if infos[f"_{name.removeprefix('_')}"].any()}
