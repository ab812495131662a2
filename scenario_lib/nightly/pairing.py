"""Which entries of two libraries speak of the same scenario.

Recipes are no key for that: their identifiers change with the data and settings that a comparison is to tell about.
Drawn numbers are, and where they differ, the seed is.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Pair = tuple[T, T]


@dataclass(frozen=True, slots=True)
class Pairs(Generic[T]):
    """Two collections laid beside each other.

    Attributes:
        same: Entries of one scenario in both, (before, after).
        changed: Entries of one seed whose scenarios differ.
        lost: Only in the first.
        gained: Only in the second.
    """

    same: tuple[Pair[T], ...]
    changed: tuple[Pair[T], ...]
    lost: tuple[T, ...]
    gained: tuple[T, ...]


def pair_up(
    before: Iterable[T], after: Iterable[T], digest: Callable[[T], str | None], seed: Callable[[T], int]
) -> Pairs[T]:
    """Pair by the digest of the scenario, and what is left by the seed; each entry is used once, in order.

    Entries without a digest (a library by openg2g's example has none) are paired by their seed, and taken for the
    same scenario.
    """
    same, before, after = _matched(before, after, digest)
    by_seed, lost, gained = _matched(before, after, seed)
    unproven = [pair for pair in by_seed if digest(pair[0]) is None or digest(pair[1]) is None]
    changed = [pair for pair in by_seed if digest(pair[0]) is not None and digest(pair[1]) is not None]
    return Pairs((*same, *unproven), tuple(changed), tuple(lost), tuple(gained))


def _matched(
    before: Iterable[T], after: Iterable[T], key: Callable[[T], str | int | None]
) -> tuple[list[Pair[T]], list[T], list[T]]:
    """Pairs of equal keys, and what is left of either side."""
    waiting: dict[str | int, list[T]] = defaultdict(list)
    unmatched: list[T] = []
    for entry in before:
        name = key(entry)
        if name is None:
            unmatched.append(entry)
        else:
            waiting[name].append(entry)
    pairs: list[Pair[T]] = []
    gained: list[T] = []
    for entry in after:
        name = key(entry)
        if name is not None and waiting.get(name):
            pairs.append((waiting[name].pop(0), entry))
        else:
            gained.append(entry)
    return pairs, [*unmatched, *(entry for left in waiting.values() for entry in left)], gained
