"""The nearest point of another set, for each point of one, in bounded memory."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.metrics.voltage import Array

_BLOCK_BYTES = 64 * 1024**2


class Nearest(NamedTuple):
    """For each point: how far the nearest other one is (root mean square over the coordinates), and which it is."""

    distance: Array
    which: NDArray[np.intp]


def nearest(points: Array, others: Array) -> Nearest:
    """The nearest of `others`, shape (M, P), for each of `points`, shape (N, P)."""
    return _nearest(points, others, among_themselves=False)


def nearest_among(points: Array) -> Nearest:
    """The nearest other point of the same set."""
    return _nearest(points, points, among_themselves=True)


def _nearest(points: Array, others: Array, among_themselves: bool) -> Nearest:
    found = np.empty(len(points), dtype=np.intp)
    norms = np.einsum("ij,ij->i", others, others)
    rows = max(1, _BLOCK_BYTES // (8 * len(others)))
    for start in range(0, len(points), rows):
        block = points[start : start + rows]
        # Squared distances but for the block's own norms, which do not change who is nearest.
        squared = norms - 2.0 * (block @ others.T)
        if among_themselves:
            own = np.arange(len(block))
            squared[own, start + own] = np.inf
        found[start : start + rows] = np.argmin(squared, axis=1)
    # Exact, where the difference of large products above is not: equal points are at distance 0.
    coordinates = max(1, points.shape[1])
    return Nearest(np.linalg.norm(points - others[found], axis=1) / np.sqrt(coordinates), found)
