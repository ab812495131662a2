"""Deal groups of records to parts: proportionally within every stratum, the same whatever order they come in."""

import hashlib
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Group:
    """Records that must stay together.

    Attributes:
        name: What it is known by, whatever else is in the library; a seed.
        stratum: Groups of one stratum are dealt in proportion; any text, for its order.
        size: Records.
    """

    name: int
    stratum: str
    size: int


def deal(groups: Iterable[Group], shares: Mapping[str, Fraction], seed: int) -> dict[int, str]:
    """Part of every group, by its name.

    Stratum after stratum, in an order within each that only `seed` and the names decide, a group goes to the part
    that is furthest behind its share. So the parts of the whole, and of every stratum, are within a few records of
    their shares; where groups hold one record, whole numbers are met exactly.

    Args:
        groups: In any order.
        shares: Part to its share; they sum to 1.
        seed: Another one deals otherwise.
    """
    dealt: dict[int, str] = {}
    total, counts = 0, dict.fromkeys(shares, 0)
    for group in sorted(groups, key=lambda group: (group.stratum, _shuffled(seed, group.name))):
        total += group.size
        behind = max(shares, key=lambda part: shares[part] * total - counts[part])
        counts[behind] += group.size
        dealt[group.name] = behind
    return dealt


def _shuffled(seed: int, name: int) -> str:
    """A place in a random order that does not depend on what else is there."""
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def linked(links: Iterable[tuple[int, Hashable]]) -> dict[int, int]:
    """Names to the least name that they are linked with, over any number of common things."""
    leader: dict[int, int] = {}

    def find(name: int) -> int:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    first: dict[Hashable, int] = {}
    for name, thing in links:
        one, other = find(name), find(first.setdefault(thing, name))
        leader[max(one, other)] = min(one, other)
    return {name: find(name) for name in leader}
