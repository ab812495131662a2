"""Colours and marks: what is told apart can be told apart by the colour-blind, and in black and white."""

from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from scenario_lib.plotting.panels import (
    ACCEPTED,
    BASELINE,
    KINDS,
    OFO,
    REJECTED,
    SERIES,
    Look,
    control_looks,
    house_style,
    new_figure,
)

# Linear RGB as seen by protanopes and deuteranopes (Vienot, Brettel and Mollon 1999) and tritanopes (Machado 2009).
SEEN = {
    "all": np.eye(3),
    "protanope": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "deuteranope": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
    "tritanope": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.089])


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    """CIELAB of a colour as somebody sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = _TO_XYZ @ np.clip(seen @ linear, 0, 1) / _WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
@pytest.mark.parametrize(
    "group", [list(KINDS.values()), [BASELINE, OFO], [ACCEPTED, REJECTED]], ids=["kinds", "controls", "verdicts"]
)
def test_colours_of_a_group_stay_apart(group: list[Look], seen: np.ndarray) -> None:
    for first, second in combinations(group, 2):
        assert np.linalg.norm(lab(first.colour, seen) - lab(second.colour, seen)) > 20


@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
def test_colours_of_many_series_stay_apart(seen: np.ndarray) -> None:
    for first, second in combinations(SERIES, 2):
        assert np.linalg.norm(lab(first.colour, seen) - lab(second.colour, seen)) > 15


@pytest.mark.parametrize("group", [SERIES, tuple(KINDS.values()), (BASELINE, OFO), (ACCEPTED, REJECTED)])
def test_nothing_is_told_apart_by_colour_alone(group: tuple[Look, ...]) -> None:
    for field in ("colour", "line", "marker"):
        looks = [getattr(look, field) for look in group]
        assert len(set(map(str, looks))) == len(group), field


@pytest.mark.parametrize("look", [*SERIES, *KINDS.values(), BASELINE, OFO, ACCEPTED, REJECTED])
def test_every_colour_stands_out_from_white(look: Look) -> None:
    assert lab(look.colour, SEEN["all"])[0] < 75


def test_controls_keep_their_looks_whatever_stands_beside_them() -> None:
    looks = control_looks(["mine", "ofo", "none", "yours"])
    assert (looks["none"], looks["ofo"]) == (BASELINE, OFO)
    assert len({look.colour for look in looks.values()}) == 4
    assert len({look.marker for look in looks.values()}) == 4
    assert control_looks(["none", "mine"])["mine"] == looks["mine"]


def test_a_users_settings_neither_change_a_figure_nor_are_changed() -> None:
    with matplotlib.rc_context({"font.size": 3, "axes.facecolor": "black"}):
        with house_style():
            axes = new_figure(2).add_subplot()
        assert axes.get_facecolor() == (1, 1, 1, 1)
        assert axes.xaxis.label.get_size() == 10
        assert matplotlib.rcParams["font.size"] == 3
