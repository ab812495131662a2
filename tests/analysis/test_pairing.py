from scenario_lib.analysis.pairing import pair_up

Entry = tuple[int, str | None]


def pairs(before: list[Entry], after: list[Entry]):
    return pair_up(before, after, digest=lambda entry: entry[1], seed=lambda entry: entry[0])


def test_pairs_by_digest_then_by_seed() -> None:
    found = pairs([(1, "a"), (2, "b"), (3, "c")], [(1, "a"), (2, "x"), (4, "d")])
    assert found.same == (((1, "a"), (1, "a")),)
    assert found.changed == (((2, "b"), (2, "x")),)
    assert found.lost == ((3, "c"),)
    assert found.gained == ((4, "d"),)


def test_each_entry_is_used_once_though_two_recipes_draw_the_same_scenario() -> None:
    found = pairs([(1, "a"), (1, "a")], [(1, "a"), (1, "a"), (1, "a")])
    assert len(found.same) == 2
    assert found.gained == ((1, "a"),)
    assert found.lost == ()


def test_without_digests_the_seed_decides() -> None:
    found = pairs([(1, None), (2, None)], [(2, "b"), (3, "c")])
    assert found.same == (((2, None), (2, "b")),)
    assert found.changed == ()
    assert found.lost == ((1, None),)
    assert found.gained == ((3, "c"),)


def test_nothing_is_lost_between_the_four() -> None:
    before = [(seed, f"d{seed % 7}") for seed in range(20)]
    after = [(seed, f"d{seed % 5}") for seed in range(10, 40)]
    found = pairs(before, after)
    paired = (*found.same, *found.changed)
    assert sorted([*(pair[0] for pair in paired), *found.lost]) == sorted(before)
    assert sorted([*(pair[1] for pair in paired), *found.gained]) == sorted(after)
