"""Infos of many environments as Gymnasium stacks them: arrays by name, each with a mask `_name` of who has it."""

from collections.abc import Iterator, Mapping, Sequence
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
        self, mask: Bools, scenarios: NDArray[Any], time_s: NDArray[np.float64], batch_size: NDArray[np.int64]
    ) -> Infos:
        """What every info has: the scenarios' seeds (None without a library), the second, the batch sizes."""
        whole, masks = bool(mask.all()), _copies(mask, 3)
        infos: Infos = {
            "scenario": scenarios.copy() if whole or scenarios.dtype == object else np.where(mask, scenarios, 0),
            "time_s": time_s if whole else np.where(mask, time_s, 0.0),
            "batch_sizes": _columns(self._labels, batch_size, mask),
        }
        return _masked(infos, masks)

    def of_rewards(
        self, mask: Bools, failed: Bools, terms: NDArray[np.float64], statistics: NDArray[np.float64]
    ) -> Infos:
        """Reward terms and voltage statistics; where the power flow failed there are none."""
        if not mask.any():
            return {}
        known, masks = mask & ~failed, _copies(mask, 2)
        infos = {
            "reward_components": _columns(TERMS, terms, known),
            "voltage_stats": _columns(STATISTICS, statistics, known),
        }
        return _masked(infos, masks)

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


def _copies(mask: Bools, count: int) -> Iterator[Bools]:
    """So many copies of a mask, as rows of one fresh array."""
    return iter(np.repeat(mask[None], count, axis=0))


def _masked(values: Infos, masks: Iterator[Bools]) -> Infos:
    """Each value beside its mask."""
    infos: Infos = {}
    for name, value in values.items():
        infos[name], infos[f"_{name}"] = value, next(masks)
    return infos


def _columns(names: Sequence[str], table: NDArray[Any], mask: Bools) -> Infos:
    """The columns of a table, 0 outside the mask; none if the mask is empty."""
    if not mask.any():
        return {}
    fresh = table.T.copy() if mask.all() else np.where(mask, table.T, table.dtype.type(0))
    return _masked(dict(zip(names, fresh, strict=True)), _copies(mask, len(names)))


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
