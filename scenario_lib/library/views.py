"""A part of a library, or a library whose records have weights: what a curriculum trains on."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from scenario_lib._values import as_generator, as_position, refuse
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.model import Scenario

_KINDS = ("under", "over", "mixed")


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records of a library are played; None does not restrict.

    Attributes:
        kinds: Among "under", "over", "mixed".
        recovery: Band (low, high) of the part that OFO removes, ends included.
        seeds: These seeds only.
    """

    kinds: Collection[str] | None = None
    recovery: tuple[float, float] | None = None
    seeds: Collection[int] | None = None

    def __post_init__(self) -> None:
        for kind in self.kinds or ():
            if kind not in _KINDS:
                raise refuse("kinds", kind, f"among {', '.join(_KINDS)}")
        if self.recovery is not None and self.recovery[0] > self.recovery[1]:
            raise refuse("recovery", self.recovery, "(low, high) with low <= high")

    def keeps(self, record: ScenarioRecord) -> bool:
        """Whether a record is played."""
        return (
            (self.kinds is None or record.kind in self.kinds)
            and (self.recovery is None or self.recovery[0] <= record.recovery_frac <= self.recovery[1])
            and (self.seeds is None or record.seed in self.seeds)
        )


class ChosenRecords(Sequence[ScenarioRecord]):
    """Some records of a library, by position: as few in memory as the library itself keeps there."""

    def __init__(self, records: Sequence[ScenarioRecord], positions: Sequence[int]) -> None:
        self._records = records
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> ScenarioRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "ChosenRecords": ...
    def __getitem__(self, index: int | slice) -> "ScenarioRecord | ChosenRecords":
        if isinstance(index, slice):
            return ChosenRecords(self._records, self._positions[index])
        return self._records[self._positions[as_position("record", index, len(self))]]


class LibraryView:
    """Some records of a library, drawn with equal or given weights; offers what environments ask of a library.

    Args:
        library: The whole library.
        restriction: Which records are played.
        weight: Weight of a record, at least 0; None for equal weights.

    Raises:
        UnknownNameError: A seed of the restriction is not there, or no record is left.
        InvalidSettingError: A weight is negative or not finite, or all are 0.
    """

    def __init__(
        self,
        library: ScenarioLibrary,
        restriction: RecordFilter | None = None,
        weight: Callable[[ScenarioRecord], float] | None = None,
    ) -> None:
        self._library = library
        restriction = restriction or RecordFilter()
        for seed in restriction.seeds or ():
            library.record_for(seed)
        positions = [position for position, record in enumerate(library) if restriction.keeps(record)]
        self.scenarios: Sequence[ScenarioRecord] = ChosenRecords(library.scenarios, positions)
        if not self.scenarios:
            raise UnknownNameError(f"{library.path}: no record is left under {restriction}")
        self._probabilities = None if weight is None else _probabilities([weight(r) for r in self.scenarios])

    @property
    def library(self) -> ScenarioLibrary:
        """The whole library."""
        return self._library

    @property
    def path(self) -> Path:
        """Path of the whole library."""
        return self._library.path

    @property
    def recipes(self) -> dict[str, Recipe]:
        """Recipes of the whole library."""
        return self._library.recipes

    def __len__(self) -> int:
        return len(self.scenarios)

    def __getitem__(self, index: int) -> ScenarioRecord:
        return self.scenarios[index]

    def __iter__(self) -> Iterator[ScenarioRecord]:
        return iter(self.scenarios)

    def __repr__(self) -> str:
        return f"LibraryView({len(self)} of {self._library!r})"

    def sample(self, rng: np.random.Generator | int | None = None) -> ScenarioRecord:
        """A record, with its weight; see `ScenarioLibrary.sample`."""
        return self.scenarios[int(as_generator("rng", rng).choice(len(self), p=self._probabilities))]

    def record_for(self, seed: int) -> ScenarioRecord:
        """The record of a seed; see `ScenarioLibrary.record_for`. Records outside the restriction are found too."""
        return self._library.record_for(seed)

    def recipe_of(self, record: ScenarioRecord) -> Recipe:
        """What a record was drawn from."""
        return self._library.recipe_of(record)

    def materialize(self, record: ScenarioRecord, *, from_numbers: bool | None = None) -> Scenario:
        """The scenario of a record; see `ScenarioLibrary.materialize`."""
        return self._library.materialize(record, from_numbers=from_numbers)


def _probabilities(weights: list[float]) -> np.ndarray:
    values = np.asarray(weights, float)
    if not np.all(np.isfinite(values)) or np.any(values < 0) or values.sum() == 0:
        raise InvalidSettingError(f"weights are {weights[:5]}...; expected finite numbers of at least 0, not all 0")
    return np.asarray(values / values.sum())


def spread_records(library: ScenarioLibrary, count: int | None) -> list[ScenarioRecord]:
    """`count` records, evenly spread from the first to the last; all for None."""
    if count is None or count >= len(library):
        return list(library)
    return [library[round(position)] for position in np.linspace(0, len(library) - 1, count)]
