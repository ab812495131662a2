"""The nearest point of another set, for each point of one, in bounded memory.

A scenario as a point: what was drawn for it, as named numbers whose differences mean something.

Left out are seeds (of sites and of noise), which have no distance, and the powers and replicas that follow from what is
here. What a scenario does not have, such as an overlay or a second ramp, is 0.

What two libraries have in common: seeds, scenarios, and neighbours among their parameters.

A policy that is tested on what it was trained on looks better than it is. Shared seeds count even under different
settings: both scenarios come from one stream of random numbers, and their draws go together.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats
from scenario_lib._values import require_at_least
from scenario_lib.feeders.sites import Site
from scenario_lib.library.library import AnyLibrary, ScenarioLibrary, opened
from scenario_lib.library.split import content_digest
from scenario_lib.scenario.model import Scenario, ScenarioPower

_BLOCK_BYTES = 64 * 1024**2


class _Nearest(NamedTuple):
    """For each point: how far the nearest other one is (root mean square over the coordinates), and which it is."""

    distance: Floats
    which: NDArray[np.intp]


def nearest(points: Floats, others: Floats) -> _Nearest:
    """The nearest of `others`, shape (M, P), for each of `points`, shape (N, P)."""
    return _nearest(points, others, among_themselves=False)


def nearest_among(points: Floats) -> _Nearest:
    """The nearest other point of the same set."""
    return _nearest(points, points, among_themselves=True)


def _nearest(points: Floats, others: Floats, among_themselves: bool) -> _Nearest:
    # Not a tree: in the tens of dimensions that scenarios have it looks at nearly every pair, one at a time.
    from scipy.spatial.distance import cdist

    distance, which = np.zeros(len(points)), np.zeros(len(points), dtype=np.intp)
    rows = max(1, _BLOCK_BYTES // (8 * len(others)))
    for start in range(0, len(points), rows):
        block = cdist(points[start : start + rows], others)
        own = np.arange(len(block))
        if among_themselves:
            block[own, start + own] = np.inf
        found = np.argmin(block, axis=1)
        which[start : start + rows], distance[start : start + rows] = found, block[own, found]
    return _Nearest(distance / np.sqrt(max(1, points.shape[1])), which)


_NOT_MEASURED = ("noise_seed", "clouds", "shape")


def parameters(scenario: Scenario) -> dict[str, float]:
    """The drawn parameters by name; times in s, batch sizes as their logarithm to base 2."""
    drawn = scenario.params
    named = {
        "pv_scale": drawn.pv_scale,
        "load_scale": drawn.load_scale,
        "pv_t_shift_s": drawn.pv_t_shift_s,
        "tvl_t_shift_s": drawn.tvl_t_shift_s,
        "pv_warp": drawn.pv_warp,
        "tvl_warp": drawn.tvl_warp,
    }
    named |= dict(_overlay(scenario))
    for site in scenario.sites:
        named |= dict(_site(site))
    for kind, elements in (("pv", scenario.pv_systems), ("load", scenario.tvl)):
        for index, element in enumerate(elements):
            named |= dict(_profile(f"{kind}[{index}]", element))
    return named


def _overlay(scenario: Scenario) -> Iterator[tuple[str, float]]:
    overlay = scenario.params.training_overlay
    if overlay is not None:
        job = overlay.job
        yield "overlay", 1.0
        yield "overlay.n_gpus", float(job.n_gpus)
        yield "overlay.intensity", overlay.intensity
        yield "overlay.t_start_s", job.t_start_s
        yield "overlay.duration_s", job.t_end_s - job.t_start_s


def _site(site: Site) -> Iterator[tuple[str, float]]:
    for model in site.models:
        yield f"{site.name}.{model.label}.batch_log2", math.log2(model.initial_batch_size)
    # All models of a site ramp together; the one with most replicas tells best by how much.
    largest = max(site.models, key=lambda model: model.replicas)
    yield f"{site.name}.ramps", float(len(largest.ramps))
    for index, ramp in enumerate(largest.ramps):
        yield f"{site.name}.ramp[{index}].fraction", ramp.target_replicas / largest.replicas
        yield f"{site.name}.ramp[{index}].t_start_s", ramp.t_start_s
        yield f"{site.name}.ramp[{index}].duration_s", ramp.t_end_s - ramp.t_start_s


def _profile(name: str, element: ScenarioPower) -> Iterator[tuple[str, float]]:
    drawn = element.profile.params() or {}
    if "shape" in drawn:
        yield f"{name}.shape={drawn['shape']}", 1.0
    for key, value in drawn.items():
        if key not in _NOT_MEASURED and isinstance(value, int | float):
            yield f"{name}.{key}", float(value)
    for index, (centre_s, half_width_s, depth) in enumerate(sorted(drawn.get("clouds", ()))):
        yield f"{name}.cloud[{index}].centre_s", centre_s
        yield f"{name}.cloud[{index}].half_width_s", half_width_s
        yield f"{name}.cloud[{index}].depth", depth


def standardised(first: Sequence[dict[str, float]], second: Sequence[dict[str, float]]) -> tuple[Floats, Floats]:
    """Two sets of points in units of the standard deviation that each parameter has over both.

    Returns:
        Arrays of shape (records, P), P counting the parameters that vary at all.
    """
    names = sorted({name for point in (*first, *second) for name in point})
    points = np.array([[point.get(name, 0.0) for name in names] for point in (*first, *second)], float)
    deviation = points.std(axis=0)
    # A sum of equal numbers may be off by its last bit, which is not variation.
    varies = deviation > 1e-12 * np.maximum(1.0, np.abs(points).max(axis=0))
    scaled = (points[:, varies] - points[:, varies].mean(axis=0)) / deviation[varies]
    return scaled[: len(first)], scaled[len(first) :]


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
    """Seeds and scenarios that two libraries have in common.

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


def _quantiles(distances: Floats) -> dict[str, float]:
    values = np.quantile(distances, list(_QUANTILES.values()))
    return dict(zip(_QUANTILES, map(float, values), strict=True))


def _closest(found: _Nearest, first_seeds: list[int], second_seeds: list[int]) -> Iterator[Pair]:
    for position in np.argsort(found.distance, kind="stable")[:_CLOSEST_PAIRS]:
        yield Pair(first_seeds[found.which[position]], second_seeds[position], float(found.distance[position]))


def _counted(values: tuple[Any, ...]) -> str:
    some = ", ".join(map(str, values[:5]))
    return "none" if not values else f"{len(values)}, such as {some}"


def _spread(quantiles: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in quantiles.items())
