"""Infos of many environments as Gymnasium stacks them: arrays by name, each with a mask `_name` of who has it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Bools
from scenario_lib.simulation.compiled.step_tables import STATISTICS, TERMS

Infos = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EnvMask:
    """Some of N environments; all and none of them, which is asked many times a step, is counted once."""

    mask: Bools
    everyone: bool
    anyone: bool

    @classmethod
    def of(cls, mask: Bools) -> "EnvMask":
        """Those of a mask."""
        return cls(mask, bool(mask.all()), bool(mask.any()))

    def copies(self, count: int) -> Iterator[Bools]:
        """So many copies of the mask, as rows of one fresh array."""
        return iter(np.repeat(self.mask[None], count, axis=0))

    def only(self, values: NDArray[Any]) -> NDArray[Any]:
        """A fresh array of the values along the last axis, with 0 or None for all others."""
        if self.everyone:
            return values.copy()
        nothing: Any = None if values.dtype == object else values.dtype.type(0)
        return np.where(self.mask, values, nothing)

    def columns(self, names: Sequence[str], table: NDArray[Any], masks: Iterator[Bools]) -> Infos:
        """The columns of a table by name; none if there is nobody."""
        if not self.anyone:
            return {}
        return _masked(zip(names, self.only(table.T), strict=True), masks)


class VectorInfos:
    """Makes infos of N environments.

    Args:
        n: Number of environments.
        labels: Observed models.
    """

    def __init__(self, n: int, labels: Sequence[str]) -> None:
        self._n, self._labels = n, labels

    def of_episodes(
        self, envs: EnvMask, scenarios: NDArray[Any], time_s: NDArray[np.float64], batch_size: NDArray[np.int64]
    ) -> Infos:
        """What every info has: the scenarios' seeds (None without a library), the second, the batch sizes."""
        masks = envs.copies(3 + len(self._labels))
        infos: Infos = {
            "scenario": scenarios.copy() if scenarios.dtype == object else envs.only(scenarios),
            "time_s": envs.only(time_s),
            "batch_sizes": envs.columns(self._labels, batch_size, masks),
        }
        return _masked(infos.items(), masks)

    def of_rewards(
        self,
        envs: EnvMask,
        terms: NDArray[np.float64],
        statistics: NDArray[np.float64],
        failures: Mapping[int, str] | None = None,
    ) -> Infos:
        """Reward terms, voltage statistics, and what went wrong (an empty text: nothing) of those who stepped."""
        if not envs.anyone:
            return {}
        masks = envs.copies(len(TERMS) + len(STATISTICS))
        messages = np.full(self._n, None, object)
        messages[envs.mask] = ""
        for i, message in (failures or {}).items():
            messages[i] = message
        infos: Infos = {
            "reward_components": envs.columns(TERMS, terms, masks),
            "voltage_stats": envs.columns(STATISTICS, statistics, masks),
            "power_flow": messages,
        }
        return _masked(infos.items(), envs.copies(3))

    def of_begun(self, envs: EnvMask, statistics: NDArray[np.float64]) -> Infos:
        """As `of_rewards`, where an episode begins: nothing was paid yet."""
        return self.of_rewards(envs, np.zeros((self._n, len(TERMS))), statistics)

    def of_extensions(
        self, envs: EnvMask, figures: Mapping[str, NDArray[Any]], components: Mapping[str, NDArray[Any]] | None
    ) -> Infos:
        """Figures that were asked for, by name, of shape (N, ...); and terms of a reward of one's own."""
        if not envs.anyone:
            return {}
        infos: Infos = {name: _only_rows(values, envs) for name, values in figures.items()}
        if components is not None:
            own = {name: envs.only(values) for name, values in components.items()}
            infos["reward_components"] = _masked(own.items(), envs.copies(len(own)))
        return _masked(infos.items(), envs.copies(len(infos)))

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
        going_on, over = EnvMask.of(~ended), EnvMask.of(ended)
        out = self.merged(_restricted(infos, going_on), begun, ended)
        final = {"final_obs": final_obs, "final_info": _restricted(infos, over)}
        return {**out, **_masked(final.items(), over.copies(2))}

    def _chosen(self, held: Any, value: Any, mask: Bools) -> Any:
        if held is None:
            return value
        if isinstance(value, dict):
            return self.merged(held, value, mask)
        return np.where(mask.reshape(-1, *[1] * (value.ndim - 1)), value, held)


def _only(values: NDArray[Any], envs: EnvMask) -> NDArray[Any]:
    return envs.only(values) if values.ndim == 1 else _only_rows(values, envs)


def _only_rows(values: NDArray[Any], envs: EnvMask) -> NDArray[Any]:
    """The values along the first axis, with 0 for all others."""
    return np.where(envs.mask.reshape(-1, *[1] * (values.ndim - 1)), values, values.dtype.type(0))


def _masked(values: Iterable[tuple[str, Any]], masks: Iterator[Bools]) -> Infos:
    """Each value beside its mask, by name."""
    infos: Infos = {}
    for (name, value), mask in zip(values, masks, strict=False):
        infos[name], infos["_" + name] = value, mask
    return infos


def _restricted(infos: Infos, envs: EnvMask) -> Infos:
    """Infos of some environments only."""
    return _without_empty(
        {
            name: _restricted(value, envs) if isinstance(value, dict) else _only(value, envs)
            for name, value in infos.items()
        }
    )


def _without_empty(infos: Infos) -> Infos:
    """Names that somebody has."""
    return {name: value for name, value in infos.items() if infos[f"_{name.removeprefix('_')}"].any()}
