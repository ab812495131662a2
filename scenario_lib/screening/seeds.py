"""Seeds in rising order: a range by arithmetic however long it is, or an explicit list."""

from bisect import bisect_left

Seeds = range | tuple[int, ...]
"""Rising, each once."""

_STEP, _FIRST = 1000, 7


def numbered(start: int, count: int) -> range:
    """Seeds of `count` candidates in openg2g's numbering: candidate i has seed i * 1000 + 7."""
    return range(start * _STEP + _FIRST, (start + count) * _STEP + _FIRST, _STEP)


def holds(seeds: Seeds, seed: int) -> bool:
    """Whether a seed is one of them."""
    if isinstance(seeds, range):
        return seed in seeds
    place = bisect_left(seeds, seed)
    return place < len(seeds) and seeds[place] == seed


def shared(one: Seeds, other: Seeds) -> Seeds:
    """The seeds that both have; of two ranges, which all have one step and residue, without counting them out."""
    if isinstance(one, range) and isinstance(other, range):
        return range(max(one.start, other.start), min(one.stop, other.stop), _STEP)
    listed, wide = (other, one) if isinstance(one, range) else (one, other)
    return tuple(seed for seed in listed if holds(wide, seed))
