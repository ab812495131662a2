"""Numbers as people read them."""

from collections.abc import Iterable

import numpy as np

DASH = "-"
"""What stands where there is no figure."""

_UNBROKEN = "\u00a0"


def percent(value: float | None) -> str:
    """A part as per cent; a dash where there is none."""
    return DASH if value is None or not np.isfinite(value) else f"{value:.0%}"


def number(value: float | None, unit: str = "") -> str:
    """Three significant digits, and more where a number is larger; a dash where there is none."""
    if value is None or not np.isfinite(value):
        return DASH
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text}{_UNBROKEN}{unit}" if unit else text


def spread(values: Iterable[float], unit: str = "") -> str:
    """Lowest, median and highest value; a dash without any."""
    known = np.array([value for value in values if np.isfinite(value)])
    if not known.size:
        return DASH
    low, middle, high = np.quantile(known, [0.0, 0.5, 1.0])
    return f"{number(low)} to {number(high, unit)}, median {number(middle)}"


def percent_spread(values: Iterable[float]) -> str:
    """The same of parts, as per cent."""
    known = np.array([value for value in values if np.isfinite(value)])
    if not known.size:
        return DASH
    low, middle, high = np.quantile(known, [0.0, 0.5, 1.0])
    return f"{low:.0%} to {high:.0%}, median {middle:.0%}"


def counted(counts: dict[str, int]) -> str:
    """Counts in one line, such as "23 under, 2 over"; "none" without any."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
