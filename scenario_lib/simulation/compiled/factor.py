"""L D L^T of a complex symmetric sparse matrix, and solving with it.

No pivoting: the order is fixed by `ordering`. Columns are eliminated one after another, each subtracting the
products of its entries from the columns after it (right-looking), at places looked up beforehand. A
solution sweeps through the entries once forwards and once backwards, in two flat lists: loops over columns would be
too short to be fast.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel
from scenario_lib.simulation.compiled.vector_ops import subtract_product

Indices = NDArray[np.uint32]


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
