"""Which records workers draw."""

import numpy as np
import pytest
from env_samples import LIBRARY

from scenario_lib.env.sampling import ScenarioSampler, ScenarioSamplers, WorkerShare, named_record, worker_generator
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.library.library import ScenarioLibrary


@pytest.fixture(scope="module")
def library():
    return ScenarioLibrary(LIBRARY)


def sequence(picker, rng, count):
    return [picker.pick(rng).seed for _ in range(count)]


def test_streams_of_adjacent_base_seeds_do_not_meet():
    draws = {
        tuple(worker_generator(seed, WorkerShare(i, 3)).integers(0, 2**63, 4)) for seed in range(4) for i in range(3)
    }
    assert len(draws) == 12
    again = worker_generator(1, WorkerShare(2, 3)).integers(0, 2**63, 4)
    assert tuple(again) in draws


def test_random_coverage_is_the_generators(library):
    picker = ScenarioSampler(library, None, "random")
    first = sequence(picker, np.random.default_rng(4), 20)
    assert first == sequence(picker, np.random.default_rng(4), 20)
    assert set(first) == {record.seed for record in library}


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_disjoint_coverage_over_all_workers(library, count):
    pickers = [ScenarioSampler(library, WorkerShare(i, count), "disjoint") for i in range(count)]
    for picker in pickers:
        picker.restart(8)
    drawn = [picker.pick(np.random.default_rng()).seed for _ in range(6) for picker in pickers]
    for start in range(0, len(drawn) - len(library) + 1, len(library)):
        assert len(set(drawn[start : start + len(library)])) == len(library)


def test_disjoint_orders_differ_by_base_seed_and_round(library):
    picker = ScenarioSampler(library, None, "disjoint")
    orders = []
    for seed in range(6):
        picker.restart(seed)
        orders.append(tuple(sequence(picker, np.random.default_rng(0), 6)))
    assert len(set(orders)) > 1
    assert any(order[:3] != order[3:] for order in orders)


@pytest.mark.parametrize(("index", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_workers_that_cannot_be(index, count):
    with pytest.raises(InvalidSettingError, match=r"expected \(i, k\) with 0 <= i < k"):
        WorkerShare(index, count)


def test_bad_coverage_and_a_missing_seed(library):
    with pytest.raises(InvalidSettingError, match="coverage is 'all'; expected one of random, disjoint"):
        ScenarioSampler(library, None, "all")
    with pytest.raises(InvalidSettingError, match="coverage='disjoint' needs reset"):
        ScenarioSampler(library, None, "disjoint").pick(np.random.default_rng(0))


def samplers(library, n):
    return ScenarioSamplers(library, None, "random", n)


def test_sub_environments_draw_as_workers(library):
    drawing = samplers(library, 3)
    drawing.seed(5, np.ones(3, bool))
    for i in range(3):
        alone = ScenarioSampler(library, WorkerShare(i, 3), "random")
        wanted = sequence(alone, worker_generator(5, WorkerShare(i, 3)), 5)
        assert [drawing.pick(i).seed for _ in range(5)] == wanted


def test_masked_environments_go_on(library):
    drawing, other = samplers(library, 2), samplers(library, 2)
    for one in (drawing, other):
        one.seed(1, np.ones(2, bool))
        one.pick(0)
    drawing.seed(2, np.array([False, True]))
    assert [drawing.pick(0).seed for _ in range(8)] == [other.pick(0).seed for _ in range(8)]


def test_looking_ahead_changes_no_sequence(library):
    drawing, other = samplers(library, 1), samplers(library, 1)
    for one in (drawing, other):
        one.seed(1, np.ones(1, bool))
    assert [(drawing.peek(0).seed, drawing.pick(0).seed) for _ in range(8)] == [
        (seed, seed) for seed in (other.pick(0).seed for _ in range(8))
    ]


def test_named_scenarios(library):
    assert named_record(library, 2007).seed == 2007
    assert named_record(library, None) is None
    with pytest.raises(UnknownNameError, match="no record of seed 1"):
        named_record(library, 1)
    assert samplers(None, 1).pick(0) is None
    with pytest.raises(InvalidSettingError, match="expected none, without a library"):
        named_record(None, 7)
