"""Sparse symmetric solutions against numpy's dense ones."""

import numpy as np
import pytest

from scenario_lib.simulation.compiled.sparse import Pattern, Sweep, analyse, copy_entries, factorise, solve_in_place


def random_matrix(n: int, rng: np.random.Generator) -> np.ndarray:
    """Complex symmetric, sparse, diagonally dominant."""
    matrix = np.zeros((n, n), complex)
    for _ in range(2 * n):
        i, j = rng.integers(0, n, 2)
        matrix[i, j] = matrix[j, i] = rng.normal() + 1j * rng.normal()
    return matrix + np.diag(4 + np.abs(matrix).sum(axis=0))


def pattern_of(matrix: np.ndarray) -> Pattern:
    return analyse([set(np.flatnonzero(row).tolist()) - {i} for i, row in enumerate(matrix)])


def sweeps(pattern: Pattern, columns: np.ndarray) -> tuple[Sweep, Sweep]:
    entries = np.flatnonzero(np.isin(pattern.columns(), columns))
    back = np.lexsort((pattern.columns(), -pattern.rows))
    unsigned = [a.astype(np.uint32) for a in (pattern.rows[entries], pattern.columns()[entries], entries)]
    backward = [a.astype(np.uint32) for a in (pattern.columns()[back], pattern.rows[back], back)]
    return Sweep(*unsigned), Sweep(*backward)


def solve(pattern: Pattern, lower: np.ndarray, inverse: np.ndarray, b: np.ndarray) -> np.ndarray:
    forward, backward = sweeps(pattern, pattern.reach(np.flatnonzero(b[pattern.order])))
    values = [np.zeros(sweep.entry.size, complex) for sweep in (forward, backward)]
    for sweep, out in zip((forward, backward), values, strict=True):
        copy_entries(lower, sweep, out)
    x = b[pattern.order]
    solve_in_place(forward, backward, *values, inverse, x)
    back = np.empty_like(x)
    back[pattern.order] = x
    return back


def ordered(matrix: np.ndarray, pattern: Pattern) -> tuple[np.ndarray, np.ndarray]:
    in_order = matrix[np.ix_(pattern.order, pattern.order)]
    return in_order[pattern.rows, pattern.columns()].copy(), in_order.diagonal().copy()


@pytest.mark.parametrize("n", [1, 2, 15, 60])
def test_solves_as_numpy_does(n: int) -> None:
    rng = np.random.default_rng(n)
    matrix = random_matrix(n, rng)
    pattern = pattern_of(matrix)
    lower, diagonal = ordered(matrix, pattern)
    factorise(pattern.column_start, pattern.targets, pattern.target_start(), np.arange(n), lower, diagonal)
    b = np.where(rng.random(n) < 0.3, rng.normal(size=n) + 1j, 0)
    assert np.abs(solve(pattern, lower, diagonal, b) - np.linalg.solve(matrix, b)).max() < 1e-13


def test_columns_that_a_change_does_not_reach_need_no_new_elimination() -> None:
    matrix = random_matrix(40, np.random.default_rng(1))
    pattern = pattern_of(matrix)
    place = {int(node): position for position, node in enumerate(pattern.order)}
    rebuilt = pattern.reach([place[3], place[17]])
    assert len(rebuilt) < 40
    lower, diagonal = ordered(matrix, pattern)
    rest = np.setdiff1d(np.arange(40), rebuilt)
    factorise(pattern.column_start, pattern.targets, pattern.target_start(), rest, lower, diagonal)
    for node, change in ((3, 2 - 1j), (17, 0.5j)):
        matrix[node, node] += change
        diagonal[place[node]] += change
    factorise(pattern.column_start, pattern.targets, pattern.target_start(), rebuilt, lower, diagonal)
    b = np.ones(40, complex)
    assert np.abs(solve(pattern, lower, diagonal, b) - np.linalg.solve(matrix, b)).max() < 1e-13
