"""Dealing: disjoint, in proportion, and the same in whatever order groups come."""

import random
from collections import Counter
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scenario_lib.library.split import SplitGroup, linked, share_out

SHARES = {"train": Fraction(8, 10), "validation": Fraction(1, 10), "test": Fraction(1, 10)}

single = st.builds(SplitGroup, st.integers(0, 10**6), st.sampled_from(["a", "b", "c"]), st.just(1))
groups = st.lists(single, max_size=120, unique_by=lambda group: group.name)


@st.composite
def shares(draw: st.DrawFn) -> dict[str, Fraction]:
    weights = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    return {f"part{index}": Fraction(weight, sum(weights)) for index, weight in enumerate(weights)}


@given(groups, shares(), st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_order_of_groups_never_matters(groups, shares, seed, shuffler: random.Random) -> None:
    dealt = share_out(groups, shares, seed)
    shuffled = list(groups)
    shuffler.shuffle(shuffled)
    assert share_out(shuffled, shares, seed) == dealt
    assert dealt.keys() == {group.name for group in groups}
    assert set(dealt.values()) <= shares.keys()


@given(groups, shares(), st.integers(0, 5))
def test_the_whole_and_every_stratum_are_near_their_shares(groups, shares, seed) -> None:
    dealt = share_out(groups, shares, seed)
    whole = Counter(dealt.values())
    for part, share in shares.items():
        assert whole[part] < share * len(groups) + 1
    for stratum in "abc":
        members = [group.name for group in groups if group.stratum == stratum]
        counts = Counter(dealt[name] for name in members)
        for part, share in shares.items():
            assert abs(counts[part] - share * len(members)) <= len(shares)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(0, 5))
def test_whole_numbers_are_met_exactly(sizes, seed) -> None:
    total = sum(sizes)
    shares = {f"part{index}": Fraction(size, total) for index, size in enumerate(sizes)}
    dealt = share_out([SplitGroup(name, "a", 1) for name in range(total)], shares, seed)
    assert [Counter(dealt.values())[part] for part in shares] == sizes


def test_another_seed_deals_otherwise() -> None:
    groups = [SplitGroup(name, "a", 1) for name in range(50)]
    assert share_out(groups, SHARES, 0) != share_out(groups, SHARES, 1)
    assert Counter(share_out(groups, SHARES, 1).values()) == {"train": 40, "validation": 5, "test": 5}


def test_a_large_group_counts_for_its_records() -> None:
    groups = [SplitGroup(0, "a", 8), *(SplitGroup(name, "b", 1) for name in range(1, 9))]
    dealt = share_out(groups, {"one": Fraction(1, 2), "other": Fraction(1, 2)}, 0)
    assert {dealt[0]} != {dealt[name] for name in range(1, 9)}
    assert len({dealt[name] for name in range(1, 9)}) == 1


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(100, 108)), max_size=30))
def test_linked_names_are_the_connected_ones(links) -> None:
    leaders = linked(links)
    assert leaders.keys() == {name for name, _ in links}
    reached = {name: {name} for name in leaders}
    for _ in leaders:
        for name, thing in links:
            reached[name] |= {other for n, t in links if t == thing for other in reached[n]}
    assert leaders == {name: min(others) for name, others in reached.items()}
