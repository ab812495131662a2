"""L D L^T of a complex symmetric sparse matrix, and solving with it.

No pivoting: the order is fixed by `ordering`. Columns are eliminated one after another, each subtracting the
products of its entries from the columns after it (right-looking), at places looked up beforehand.
"""

from scenario_lib.simulation.compiled.kernels import kernel


@kernel
def factorise(column_start, targets, first, lower, diagonal):  # type: ignore[no-untyped-def]
    """Turn a matrix into its factor, in place.

    Args:
        column_start, targets: Pattern of the factor.
        first: Pair (column, index of its first target): columns before it are factorised already.
        lower: Entries below the diagonal, becoming those of L, complex, shape (m,).
        diagonal: Becoming the reciprocals of D, complex, shape (n,).
    """
    next_target = first[1]
    for column in range(first[0], diagonal.size):
        start, stop = column_start[column], column_start[column + 1]
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
def solve_in_place(column_start, rows, lower, inverse_diagonal, vector):  # type: ignore[no-untyped-def]
    """Replace the first n values of `vector` by the solution of the factorised system."""
    n = inverse_diagonal.size
    for column in range(n):
        value = vector[column]
        for p in range(column_start[column], column_start[column + 1]):
            vector[rows[p]] -= lower[p] * value
    for column in range(n - 1, -1, -1):
        value = vector[column] * inverse_diagonal[column]
        for p in range(column_start[column], column_start[column + 1]):
            value -= lower[p] * vector[rows[p]]
        vector[column] = value
