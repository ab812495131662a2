"""How a control differs from OFO, scenario by scenario: the mean difference, its interval, wins and losses.

Hours differ far more from each other than controls do in one hour, so that means side by side say little about which
control is better; differences within each scenario say it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scenario_lib._arrays import Floats

CONFIDENCE = 0.95
_RESAMPLES = 10_000  # the interval's ends are then within some 3 % of a standard error
_AT_ONCE = 1_000_000
_SEED = 20_000


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """One control less OFO over the scenarios of one feeder, or of one kind of violation on it.

    Attributes:
        kind: Of violation, "all" for every kind.
        scenarios: Their number; those that any control failed in are left out.
        difference_pu_s: Mean of the integral violation under the control less that under OFO (pu s); negative where
            the control leaves less.
        low_pu_s, high_pu_s: Interval of that mean at 95 % (percentile bootstrap over scenarios, Efron and Tibshirani,
            An Introduction to the Bootstrap, 1993, section 13.3); None for a single scenario.
        wins, losses: Scenarios in which the control leaves less, and more, than OFO; the others are equal.
    """

    feeder: str
    kind: str
    control: str
    scenarios: int
    difference_pu_s: float
    low_pu_s: float | None
    high_pu_s: float | None
    wins: int
    losses: int


def paired_difference(
    feeder: str, kind: str, control: str, own_pu_s: Sequence[float], ofo_pu_s: Sequence[float]
) -> PairedDifference:
    """The difference of integral violations (pu s) that are in the order of the same scenarios, of at least one.

    The resampled scenarios come from one fixed seed: equal figures give equal intervals, and all controls of one table
    are resampled alike.

    Raises:
        ValueError: The two are of different lengths.
    """
    differences = np.array([own - ofo for own, ofo in zip(own_pu_s, ofo_pu_s, strict=True)])
    low, high = _interval(differences) if len(differences) > 1 else (None, None)
    return PairedDifference(
        feeder=feeder,
        kind=kind,
        control=control,
        scenarios=len(differences),
        difference_pu_s=float(np.mean(differences)),
        low_pu_s=low,
        high_pu_s=high,
        wins=int(np.count_nonzero(differences < 0)),
        losses=int(np.count_nonzero(differences > 0)),
    )


def _interval(differences: Floats) -> tuple[float, float]:
    generator = np.random.default_rng(_SEED)
    n = len(differences)
    # Some resamples at a time: memory does not grow with a library's size.
    rows = max(1, _AT_ONCE // n)
    counts = [min(rows, _RESAMPLES - first) for first in range(0, _RESAMPLES, rows)]
    means = np.concatenate([differences[generator.integers(n, size=(m, n))].mean(axis=1) for m in counts])
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def paired_lines(name: str, differences: Sequence[PairedDifference]) -> list[str]:
    """Differences as text, under a heading that begins with `name`; none where there are none."""
    if not differences:
        return []
    width = max(12, *(len(entry.control) + 2 for entry in differences))
    head = f"{'control':{width}}{'kind':8}{'scenarios':>10}{'mean':>11}{'low':>11}{'high':>11}{'wins':>7}{'losses':>8}"
    lines = [f"{name}integral violation less that under OFO (pu s), with its {CONFIDENCE:.0%} interval", head]
    for entry in differences:
        figures = (entry.difference_pu_s, entry.low_pu_s, entry.high_pu_s)
        cells = "".join(f"{'-' if value is None else format(value, '.3f'):>11}" for value in figures)
        counts = f"{entry.wins:>7}{entry.losses:>8}"
        lines.append(f"{entry.control:{width}}{entry.kind:8}{entry.scenarios:>10}{cells}{counts}")
    return lines
