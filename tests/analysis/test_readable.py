"""Figures as a person reads them: no exponent, three digits, whole before the point."""

import pytest

from scenario_lib.analysis.info import plain_figure, spread_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1591.0, "1591"),
        (1590.6, "1591"),
        (48.564, "48.6"),
        (2.187, "2.19"),
        (0.29715, "0.297"),
        (0.000123456, "0.000123"),
        (-12.345, "-12.3"),
        (0.0, "0"),
        (90.04, "90"),
        (100.4, "100"),
        (5.0, "5"),
        (1e9, "1000000000"),
        (0.9999, "1"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_a_figure(value: float, text: str) -> None:
    assert plain_figure(value) == text


def test_a_spread() -> None:
    assert spread_text((0.297, 2.1, 1594.2), "pu s") == "min 0.297, median 2.1, max 1594 pu s"
    assert spread_text((0.7, 0.9, 1.0)) == "min 0.7, median 0.9, max 1"
