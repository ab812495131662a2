"""Has a distribution moved between two nights? Plain two-sample tests, with effect sizes.

Acceptance: Fisher's exact test (Fisher 1922) on accepted and rejected candidates. Figures: the two-sample
Kolmogorov-Smirnov test (Smirnov 1939). p-values are adjusted by Holm's method (Holm 1979, Scandinavian Journal of
Statistics 6, 65-70) over the tests of one comparison. The tests take the two samples for independent; over the same
seeds they are not, and the tests then find too little rather than too much: look at the flipped verdicts there.
"""

from dataclasses import dataclass, replace

import numpy as np


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
