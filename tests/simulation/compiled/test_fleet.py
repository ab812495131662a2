"""How episodes are shared out among threads."""

from itertools import pairwise

import pytest

from scenario_lib.simulation.compiled.batch import shares_of


@pytest.mark.parametrize(
    ("episodes", "threads", "edges"),
    [(1, 1, [0, 1]), (64, 1, [0, 64]), (64, 2, [0, 34, 64]), (4, 4, [0, 1, 2, 3, 4]), (10, 3, [0, 4, 7, 10])],
)
def test_shares(episodes: int, threads: int, edges: list[int]) -> None:
    assert shares_of(episodes, threads) == edges


def test_nobody_is_left_without_work() -> None:
    for episodes in range(1, 70):
        for threads in range(1, min(episodes, 9) + 1):
            edges = shares_of(episodes, threads)
            assert edges[0] == 0
            assert edges[-1] == episodes
            assert all(left < right for left, right in pairwise(edges))
