"""Seeds as ranges and lists: what arithmetic says of a range is what counting it out says."""

import time
from itertools import product

import pytest

from scenario_lib._values import LARGEST_SEED
from scenario_lib.screening.request import Seeds, holds, numbered, shared

SOME: list[Seeds] = [
    numbered(0, 5),
    numbered(3, 4),
    numbered(5, 1),
    numbered(9, 2),
    (7,),
    (8, 3007, 4008, 5007),
    (1007, 3007, 9007, 10007),
]


@pytest.mark.parametrize(("one", "other"), list(product(SOME, SOME)))
def test_what_two_share_is_what_counting_says(one: Seeds, other: Seeds) -> None:
    assert list(shared(one, other)) == sorted(set(one) & set(other))
    assert [seed for seed in range(12_000) if holds(one, seed)] == list(one)


def test_a_range_of_any_length_is_arithmetic() -> None:
    started = time.perf_counter()
    most = LARGEST_SEED // 1000
    every, last = numbered(0, most), numbered(most - 1, 1)
    assert list(shared(every, last)) == [(most - 1) * 1000 + 7]
    assert holds(every, 10**18 + 7)
    assert not holds(every, 10**18 + 8)
    assert len(every) == most
    assert time.perf_counter() - started < 0.1
