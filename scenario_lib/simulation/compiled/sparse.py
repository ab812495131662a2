"""Symbolic part of a sparse symmetric factorisation: elimination order, and where entries of the factor lie.

Done once per circuit, so plain Python. The factor is kept by columns, entries below the diagonal only.

One complex multiplication and subtraction, on both halves of a complex number at once.

The compiler makes eight scalar operations of it and is a third slower. Same order of operations, so the same bits:
real part y - (a p - b q), imaginary part y - (a q + b p).

L D L^T of a complex symmetric sparse matrix, and solving with it.

No pivoting: the order is fixed by `ordering`. Columns are eliminated one after another, each subtracting the
products of its entries from the columns after it (right-looking), at places looked up beforehand. A
solution sweeps through the entries once forwards and once backwards, in two flat lists: loops over columns would be
too short to be fast.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from scenario_lib._arrays import Indices, Ints
from scenario_lib.simulation.compiled.jit import inlined_kernel, kernel

_LEVEL_WEIGHT = 0.1
_ELIMINATED = -1.0


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
    entries = [
        {row: int(start) + i for i, row in enumerate(column)} for start, column in zip(starts, rows, strict=False)
    ]
    targets = [
        -1 - row if row == other else entries[row][other]
        for column in rows
        for position, row in enumerate(column)
        for other in column[position:]
    ]
    return Pattern(np.array(order, np.int64), starts, flat, np.array(targets, np.int64))


def _eliminate(graph: list[set[int]]) -> tuple[list[int], list[set[int]]]:
    """For each eliminated node, itself and its neighbours at that time.

    Minimum degree, preferring nodes that few eliminations lead up to: operations in a row then depend less on each
    other, which shortens a solution by a quarter. The order is by such levels for the same reason; that changes no
    neighbours, as nodes of a level do not see each other. A node waits in the heap once for every degree that it had;
    only its present one counts.
    """
    eliminated: list[tuple[int, int, set[int]]] = []
    level = [0] * len(graph)
    cost = [float(len(near)) for near in graph]
    heap = [(cost[node], node) for node in range(len(graph))]
    heapify(heap)
    while heap:
        found, node = heappop(heap)
        if found != cost[node]:
            continue
        cost[node] = _ELIMINATED
        near = graph[node]
        for other in near:
            graph[other] |= near
            graph[other] -= {node, other}
            level[other] = max(level[other], level[node] + 1)
            cost[other] = len(graph[other]) + _LEVEL_WEIGHT * level[other]
            heappush(heap, (cost[other], other))
        eliminated.append((level[node], node, near))
    eliminated.sort(key=lambda entry: entry[0])
    return [node for _, node, _ in eliminated], [near for _, _, near in eliminated]


_PAIR = ir.VectorType(ir.DoubleType(), 2)
_WORD = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def subtract_product(  # noqa: PLR0913
    typing_context: Any,  # noqa: ARG001
    target: Any,
    at: Any,
    factor: Any,
    factor_at: Any,
    source: Any,
    source_at: Any,
) -> Any:
    """target[at] -= factor[factor_at] * source[source_at], for contiguous complex128 arrays and unsigned indices."""
    signature = types.void(target, at, factor, factor_at, source, source_at)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pointer(position: int) -> Any:
            array = context.make_array(signature.args[position])(context, builder, arguments[position])
            index = arguments[position + 1]
            if index.type.width < _WORD.width:
                index = builder.zext(index, _WORD)
            return builder.gep(builder.bitcast(array.data, _PAIR.as_pointer()), [index])

        place = pointer(0)
        value, left, right = (builder.load(where, align=8) for where in (place, pointer(2), pointer(4)))
        product = _product(builder, left, right)
        builder.store(builder.fsub(value, product), place, align=8)
        return context.get_dummy_value()

    return signature, generate


def _product(builder: Any, left: Any, right: Any) -> Any:
    by_real = builder.fmul(_picked(builder, left, left, 0, 0), right)
    by_imaginary = builder.fmul(_picked(builder, left, left, 1, 1), _picked(builder, right, right, 1, 0))
    difference, total = builder.fsub(by_real, by_imaginary), builder.fadd(by_real, by_imaginary)
    return _picked(builder, difference, total, 0, 3)


def _picked(builder: Any, first: Any, second: Any, *lanes: int) -> Any:
    index = ir.IntType(32)
    mask = ir.Constant(ir.VectorType(index, 2), [ir.Constant(index, lane) for lane in lanes])
    return builder.shuffle_vector(first, second, mask)


@kernel
def factorise(column_start, targets, target_start, columns, lower, diagonal):  # type: ignore[no-untyped-def]
    """Eliminate some columns, in place.

    Args:
        column_start, targets, target_start: Pattern of the factor.
        columns: Columns to eliminate, rising; all that reach one of these are among them or eliminated already.
        lower: Entries below the diagonal, becoming those of L, complex, shape (m,).
        diagonal: Becoming the reciprocals of D, complex, shape (n,).
    """
    for column in columns:
        start, stop = column_start[column], column_start[column + 1]
        next_target = target_start[column]
        inverse = 1.0 / diagonal[column]
        diagonal[column] = inverse
        for p in range(start, stop):
            scaled = lower[p] * inverse
            for q in range(p, stop):
                target = targets[next_target]
                next_target += 1
                if target < 0:
                    diagonal[-1 - target] -= scaled * lower[q]
                else:
                    lower[target] -= scaled * lower[q]
            lower[p] = scaled


class Sweep(NamedTuple):
    """Entries of the factor in the order in which one half of a solution takes them, shape (entries,) throughout.

    Attributes:
        target, source: Row that is changed, and row that it is changed by.
        entry: Which entry of the factor by.
    """

    target: Indices
    source: Indices
    entry: Indices


@inlined_kernel
def copy_values(source, target):  # type: ignore[no-untyped-def]
    """Copy an array into one that is as long, or longer. An assignment to a slice does the same, and brings along two
    seconds of compiling its message about shapes that do not fit."""
    for i in range(source.size):
        target[i] = source[i]


@kernel
def copy_entries(lower, sweep: Sweep, out) -> None:  # type: ignore[no-untyped-def]
    """The factor's entries in the order of a sweep."""
    for i in range(sweep.entry.size):
        out[i] = lower[sweep.entry[i]]


@kernel
def solve_in_place(forward: Sweep, backward: Sweep, forward_values, backward_values, inverse_diagonal, vector):  # type: ignore[no-untyped-def]
    """Replace the first n values of `vector` by the solution of the factorised system.

    Args:
        forward: L, column by column, without columns in which `vector` stays zero.
        backward: L transposed, last row first.
        forward_values, backward_values: Entries of L in these orders.
    """
    target, source = forward.target, forward.source
    for i in range(target.size):
        subtract_product(vector, target[i], forward_values, i, vector, source[i])
    for row in range(inverse_diagonal.size):
        vector[row] *= inverse_diagonal[row]
    target, source = backward.target, backward.source
    for i in range(target.size):
        subtract_product(vector, target[i], backward_values, i, vector, source[i])
