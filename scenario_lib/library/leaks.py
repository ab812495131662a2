"""What two libraries have in common: seeds, scenarios, and neighbours among their parameters.

A policy that is tested on what it was trained on looks better than it is. Shared seeds count even under different
settings: both scenarios come from one stream of random numbers, and their draws go together.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib.feeders.checks import require_at_least
from scenario_lib.library.loader import AnyLibrary, ScenarioLibrary, opened
from scenario_lib.library.nearest import Nearest, nearest, nearest_among
from scenario_lib.library.parameters import parameters, standardised
from scenario_lib.library.split import content_digest
from scenario_lib.metrics.voltage import Array

_QUANTILES = {"min": 0.0, "q01": 0.01, "q05": 0.05, "median": 0.5, "max": 1.0}
_CLOSEST_PAIRS = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """A record of the first library and one of the second; distance in standard deviations a parameter."""

    first_seed: int
    second_seed: int
    distance: float


@dataclass(frozen=True, slots=True)
class LeakReport:
    """What two libraries have in common.

    Attributes:
        records: Of the first and of the second library.
        shared_seeds: Seeds of records in both.
        equal_scenarios: (first, second) seeds of scenarios that are equal in all but the seed.
        parameters: Drawn parameters that vary over both libraries.
        between: Quantiles of the distance from a record of the second library to the nearest of the first.
        within: The same from a record of the first to the nearest other one there; None if it has a single record.
        closest: The closest pairs, nearest first.
        near: Records of the second library that are nearer to the first than asked for; None if nothing was asked.
    """

    paths: tuple[Path, Path]
    records: tuple[int, int]
    shared_seeds: tuple[int, ...]
    equal_scenarios: tuple[tuple[int, int], ...]
    parameters: int
    between: dict[str, float]
    within: dict[str, float] | None
    closest: tuple[Pair, ...]
    near: int | None

    @property
    def leaks(self) -> bool:
        """Whether the libraries have in common what they should not."""
        return bool(self.shared_seeds or self.equal_scenarios or self.near)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {**asdict(self), "paths": [str(path) for path in self.paths], "leaks": self.leaks}

    def lines(self) -> list[str]:
        """The report as text."""
        first, second = self.paths
        lines = [
            f"libraries           {first} ({self.records[0]} records), {second} ({self.records[1]} records)",
            f"shared seeds        {_counted(self.shared_seeds)}",
            f"equal scenarios     {_counted(self.equal_scenarios)}",
            f"nearest distance    in standard deviations a parameter, over {self.parameters} drawn parameters",
            f"  second to first   {_spread(self.between)}",
            f"  within the first  {'only one record' if self.within is None else _spread(self.within)}",
        ]
        pairs = ", ".join(f"{pair.first_seed} and {pair.second_seed} ({pair.distance:.3g})" for pair in self.closest)
        lines.append(f"closest pairs       seeds {pairs}")
        if self.near is not None:
            lines.append(f"too near            {self.near} records of the second library")
        return [*lines, "the libraries leak" if self.leaks else "nothing in common"]


def find_leaks(first: AnyLibrary, second: AnyLibrary, nearer_than: float | None = None) -> LeakReport:
    """Compare two libraries, record by record.

    Args:
        first, second: The libraries; those that a policy is trained and tested on, say.
        nearer_than: Distance below which a record of the second counts as known from the first.

    Raises:
        LibraryError, ReplayError: One cannot be opened, or a record cannot be drawn again.
    """
    if nearer_than is not None:
        require_at_least("nearer_than", nearer_than, 0)
    libraries = opened(first), opened(second)
    (digests, points), (other_digests, other_points) = map(_drawn, libraries)
    here, there = standardised(points, other_points)
    found = nearest(there, here)
    seeds = [[record.seed for record in library] for library in libraries]
    return LeakReport(
        paths=(libraries[0].path, libraries[1].path),
        records=(len(libraries[0]), len(libraries[1])),
        shared_seeds=tuple(sorted(set(seeds[0]) & set(seeds[1]))),
        equal_scenarios=tuple(_equal(dict(zip(digests, seeds[0], strict=True)), other_digests, seeds[1])),
        parameters=here.shape[1],
        between=_quantiles(found.distance),
        within=None if len(here) < 2 else _quantiles(nearest_among(here).distance),
        closest=tuple(_closest(found, *seeds)),
        near=None if nearer_than is None else int(np.count_nonzero(found.distance < nearer_than)),
    )


def _drawn(library: ScenarioLibrary) -> tuple[list[str], list[dict[str, float]]]:
    """Digest and parameters of every record's scenario."""
    digests, points = [], []
    for record in library:
        scenario = library.materialize(record)
        digests.append(content_digest(scenario))
        points.append(parameters(scenario))
    return digests, points


def _equal(seed_of: dict[str, int], digests: list[str], seeds: list[int]) -> Iterator[tuple[int, int]]:
    for digest, seed in zip(digests, seeds, strict=True):
        if digest in seed_of:
            yield seed_of[digest], seed


def _quantiles(distances: Array) -> dict[str, float]:
    values = np.quantile(distances, list(_QUANTILES.values()))
    return dict(zip(_QUANTILES, map(float, values), strict=True))


def _closest(found: Nearest, first_seeds: list[int], second_seeds: list[int]) -> Iterator[Pair]:
    for position in np.argsort(found.distance, kind="stable")[:_CLOSEST_PAIRS]:
        yield Pair(first_seeds[found.which[position]], second_seeds[position], float(found.distance[position]))


def _counted(values: tuple[Any, ...]) -> str:
    some = ", ".join(map(str, values[:5]))
    return "none" if not values else f"{len(values)}, such as {some}"


def _spread(quantiles: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in quantiles.items())
