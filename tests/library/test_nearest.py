"""The nearest point, found in blocks, is that of a plain search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenario_lib.library import leaks as module
from scenario_lib.library.leaks import nearest, nearest_among


@settings(deadline=None)  # the first one loads scipy's distances
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 40), st.integers(1, 6), st.integers(1, 9))
def test_as_a_plain_search_whatever_the_block(seed: int, n: int, m: int, p: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    points, others = rng.standard_normal((n, p)), rng.standard_normal((m, p))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_BYTES", rows * 8 * m)
        found = nearest(points, others)
    distances = np.sqrt(np.mean((points[:, None] - others[None]) ** 2, axis=2))
    assert found.distance == pytest.approx(distances.min(axis=1))
    assert distances[np.arange(n), found.which] == pytest.approx(distances.min(axis=1))


def test_a_point_is_not_its_own_neighbour() -> None:
    found = nearest_among(np.array([[0.0], [1.0], [3.0]]))
    assert found.which.tolist() == [1, 0, 1]
    assert found.distance.tolist() == [1.0, 1.0, 2.0]


def test_equal_points_are_at_distance_zero_far_from_the_origin() -> None:
    points = np.random.default_rng(0).standard_normal((50, 12)) + 1e6
    assert np.all(nearest(points, points).distance == 0.0)


def test_points_without_coordinates_are_equal() -> None:
    assert nearest(np.empty((3, 0)), np.empty((2, 0))).distance.tolist() == [0.0, 0.0, 0.0]
