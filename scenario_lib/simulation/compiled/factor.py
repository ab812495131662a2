"""L D L^T of a complex symmetric sparse matrix, and solving with it.

No pivoting: the order is fixed by `ordering`. Columns are eliminated one after another, each subtracting the
products of its entries from the columns after it (right-looking), at places looked up beforehand. Indices are
unsigned: numba would otherwise look out for negative ones, at a fifth of the time.
"""

import numpy as np

from scenario_lib.simulation.compiled.kernels import kernel


@kernel
def factorise(column_start, targets, target_start, columns, lower, diagonal):  # type: ignore[no-untyped-def]  # noqa: PLR0913
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


@kernel
def solve_in_place(column_start, rows, driven, lower, inverse_diagonal, vector):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Replace the first n values of `vector` by the solution of the factorised system.

    Args:
        driven: Columns, rising, that the non-zero values of `vector` reach.
    """
    for column in driven:
        value = vector[column]
        for p in range(column_start[column], column_start[column + 1]):
            vector[rows[p]] -= lower[p] * value
    n = np.uint32(inverse_diagonal.size)
    for passed in range(n):
        column = n - np.uint32(1) - passed
        value = vector[column] * inverse_diagonal[column]
        for p in range(column_start[column], column_start[column + 1]):
            value -= lower[p] * vector[rows[p]]
        vector[column] = value
