"""Which entries of two libraries speak of the same scenario.

Recipes are no key for that: their identifiers change with the data and settings that a comparison is to tell about.
Drawn numbers are, and where they differ, the seed is.

Has a distribution moved between two nights? Plain two-sample tests, with effect sizes.

Acceptance: Fisher's exact test (Fisher 1922) on accepted and rejected candidates. Figures: the two-sample
Kolmogorov-Smirnov test (Smirnov 1939). p-values are adjusted by Holm's method (Holm 1979, Scandinavian Journal of
Statistics 6, 65-70) over the tests of one comparison. The tests take the two samples for independent; over the same
seeds they are not, and the tests then find too little rather than too much: look at the flipped verdicts there.

Candidates whose verdict is not the same in two libraries, and how near to the threshold they are.

What changed in where two libraries come from: versions, data, experiment, settings, thresholds, engine.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.metadata import LibraryContents
from scenario_lib.screening.criteria import Reason

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


@dataclass(frozen=True, slots=True)
class Shift:
    """One quantity in two libraries.

    Attributes:
        quantity: What is compared.
        n_before, n_after: Sizes of the samples.
        before, after: Fraction accepted, or median of the figure.
        effect: Difference of the fractions; or the statistic D, the largest distance of the distribution functions.
        p_value: Of the test by itself.
        adjusted_p: By Holm's method over all tests of the comparison.
    """

    quantity: str
    n_before: int
    n_after: int
    before: float
    after: float
    effect: float
    p_value: float
    adjusted_p: float = 1.0


def acceptance_shift(quantity: str, before: list[bool], after: list[bool]) -> Shift | None:
    """Fisher's exact test on two lists of verdicts; None if either is empty."""
    if not before or not after:
        return None
    from scipy.stats import fisher_exact

    counts = [[sum(verdicts), len(verdicts) - sum(verdicts)] for verdicts in (before, after)]
    first, second = (sum(verdicts) / len(verdicts) for verdicts in (before, after))
    p_value = float(fisher_exact(counts)[1])
    return Shift(quantity, len(before), len(after), first, second, second - first, p_value)


def figure_shift(quantity: str, before: list[float], after: list[float]) -> Shift | None:
    """The Kolmogorov-Smirnov test on two lists of figures; None if either is empty."""
    if not before or not after:
        return None
    from scipy.stats import ks_2samp

    result = ks_2samp(before, after)
    first, second = float(np.median(before)), float(np.median(after))
    return Shift(quantity, len(before), len(after), first, second, float(result.statistic), float(result.pvalue))


def holm_adjusted(shifts: list[Shift]) -> tuple[Shift, ...]:
    """The shifts with adjusted p-values."""
    ordered = sorted(range(len(shifts)), key=lambda position: shifts[position].p_value)
    adjusted, highest = list(shifts), 0.0
    for rank, position in enumerate(ordered):
        highest = max(highest, min(1.0, (len(shifts) - rank) * shifts[position].p_value))
        adjusted[position] = replace(shifts[position], adjusted_p=highest)
    return tuple(adjusted)


_MARGIN_OF = {
    Reason.BASELINE_BELOW_FLOOR: "baseline_floor_margin",
    Reason.BASELINE_ABOVE_CEILING: "baseline_ceiling_margin",
    Reason.RECOVERY_BELOW_FLOOR: "recovery_floor_margin",
    Reason.RECOVERY_ABOVE_CEILING: "recovery_ceiling_margin",
}


@dataclass(frozen=True, slots=True)
class VerdictFlip:
    """A scenario that was judged otherwise.

    Attributes:
        criterion: The margin that tells the two verdicts apart; None where no threshold does (a cap, a failure).
        margin_before, margin_after: Distance to that threshold, negative where it is missed (pu s for an integral).
    """

    seed: int
    before: str
    after: str
    criterion: str | None
    margin_before: float | None
    margin_after: float | None

    @property
    def changes_acceptance(self) -> bool:
        """Whether it is accepted in one library and not in the other."""
        return (self.before == Reason.ACCEPTED) != (self.after == Reason.ACCEPTED)

    def __str__(self) -> str:
        text = f"seed {self.seed}: {self.before} -> {self.after}"
        if self.criterion is None:
            return text
        margins = " -> ".join(
            "not measured" if margin is None else f"{margin:+.4g}" for margin in (self.margin_before, self.margin_after)
        )
        return f"{text} ({self.criterion.replace('_', ' ')} {margins})"


def flips(pairs: Iterable[Pair[CandidateRow]]) -> Iterator[VerdictFlip]:
    """Those of the pairs whose reasons differ."""
    for before, after in pairs:
        if before.reason == after.reason:
            continue
        criterion = next((_MARGIN_OF[Reason(r)] for r in (after.reason, before.reason) if r in _MARGIN_OF), None)
        margins = (None, None) if criterion is None else (getattr(before, criterion), getattr(after, criterion))
        yield VerdictFlip(after.seed, before.reason, after.reason, criterion, *margins)


_ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Change:
    """One value that is not the same in two libraries; `_ABSENT` where one side has none."""

    place: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.place}: {self.before} -> {self.after}"


def provenance_changes(before: LibraryContents, after: LibraryContents) -> tuple[Change, ...]:
    """Everything that differs in the provenance of two libraries."""
    return (
        *changes(before.versions, after.versions, "versions"),
        *changes(before.screening, after.screening, "screening"),
        *changes(_engines(before), _engines(after), "engines"),
        *_recipe_changes(before, after),
    )


def changes(before: Any, after: Any, place: str) -> Iterator[Change]:
    """All leaves at which two plain values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from changes(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changes(one, other, f"{place}[{index}]")
    elif before != after:
        yield Change(place, before, after)


def _engines(contents: LibraryContents) -> list[str]:
    return sorted({record.digests.engine for record in contents.records if record.digests})


def _recipe_changes(before: LibraryContents, after: LibraryContents) -> Iterator[Change]:
    """Recipes in one library only are laid beside each other in the order in which they stand there."""
    lost = [recipe for name, recipe in before.recipes.items() if name not in after.recipes]
    gained = [recipe for name, recipe in after.recipes.items() if name not in before.recipes]
    if len(lost) == len(gained):
        for one, other in zip(lost, gained, strict=True):
            yield from changes(one.to_dict(), other.to_dict(), f"recipe {one.id} -> {other.id}")
        return
    yield Change("recipes", [recipe.id for recipe in lost], [recipe.id for recipe in gained])
