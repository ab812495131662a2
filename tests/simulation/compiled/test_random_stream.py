"""The stream inside kernels is numpy's; a numpy that draws differently is named here before anything else fails."""

import numpy as np
import pytest

from scenario_lib.simulation.compiled.random_stream import fill_normal, next_normal, next_uniform, stream


@pytest.mark.parametrize("seed", [0, 7, 12345, 2**63])
def test_normals_are_numpys_and_leave_the_stream_where_numpy_does(seed: int) -> None:
    state, generator = stream(seed), np.random.default_rng(seed)
    drawn = np.empty((500, 400))
    fill_normal(state, 1.0, drawn, 0, 400)
    assert np.array_equal(drawn, generator.standard_normal((500, 400)))
    assert np.abs(drawn).max() > 3.6541528853610088  # the tail beyond the outermost layer was needed
    for _ in range(1000):
        assert next_uniform(state) == generator.random()
        assert next_normal(state) == generator.standard_normal()


def test_a_block_beside_others_is_filled_alone_and_scaled() -> None:
    table = np.full((30, 10), 9.0)
    fill_normal(stream(3), 0.005, table, 2, 6)
    assert np.array_equal(table[:, 2:6], np.random.default_rng(3).normal(size=(30, 4)) * 0.005)
    assert np.all(table[:, :2] == 9.0)
    assert np.all(table[:, 6:] == 9.0)


def test_golden_draws() -> None:
    state = stream(42)
    assert [next_normal(state) for _ in range(3)] == [0.30471707975443135, -1.0399841062404955, 0.7504511958064572]
