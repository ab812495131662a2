"""Figures as a person reads them."""

import math

from scenario_lib.feeders.checks import NO_LIMIT

Spread = tuple[float, float, float]
"""Lowest value, median, highest value."""


def plain_figure(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, without an exponent, whole before the point: 1594, 2.19, 0.297, 5."""
    if value == 0 or not math.isfinite(value) or value == int(value):
        return f"{value:.0f}"
    text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def threshold_text(value: float) -> str:
    """A threshold as a figure, or "no limit" where it is so far off that nothing is meant to reach it."""
    return "no limit" if abs(value) >= NO_LIMIT else plain_figure(value, 6)


def spread_text(spread: Spread, unit: str = "") -> str:
    """Such as "min 0.297, median 2.19, max 1590 s"."""
    low, middle, high = (plain_figure(value) for value in spread)
    return f"min {low}, median {middle}, max {high}{unit and ' ' + unit}"
