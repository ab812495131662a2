"""How all figures look: one palette that the colour-blind can read, and never colour alone.

The colours are those of Okabe and Ito, "Color Universal Design" (2008), https://jfly.uni-koeln.de/color/, with a
brown for their yellow, which would vanish on white. Whatever is told apart by colour also differs by
marker or line style.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from matplotlib import style

BLACK, GREY = "#000000", "#5f5f5f"
ORANGE, SKY, GREEN, BROWN = "#e69f00", "#56b4e9", "#009e73", "#7b3f00"
BLUE, VERMILLION, PURPLE = "#0072b2", "#d55e00", "#cc79a7"

_SETTINGS = {
    "figure.facecolor": "white",
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.4,
    # Names come from files of whoever: a dollar sign in one is a dollar sign.
    "text.parse_math": False,
    # The salt of the identifiers inside an SVG, which would otherwise be drawn at random.
    "svg.hashsalt": "scenario-lib",
    "path.simplify_threshold": 0.2,
}


_MOST_CHARACTERS = 31
"""Names come from files of whoever, and may be as long as they like."""


@contextmanager
def house_style() -> Iterator[None]:
    """The settings, around a block or as a decorator; what a user's matplotlibrc says does not matter inside."""
    with style.context(_SETTINGS, after_reset=True):
        yield


@dataclass(frozen=True, slots=True)
class Look:
    """How one series is told apart from its neighbours: by more than its colour."""

    colour: str
    line: Any = "-"
    marker: str = "o"


KINDS = {
    "under": Look(BLUE, "-", "v"),
    "over": Look(VERMILLION, "--", "^"),
    "mixed": Look(PURPLE, "-.", "D"),
}
"""Kinds of violation: the marker points to the limit that is broken."""

SERIES = (
    Look(BLUE, "-", "o"),
    Look(ORANGE, (0, (5, 1.5)), "s"),
    Look(GREEN, (0, (1, 1)), "^"),
    Look(PURPLE, (0, (5, 1, 1, 1)), "D"),
    Look(SKY, (0, (8, 1.5)), "v"),
    Look(VERMILLION, (0, (3, 1, 1, 1, 1, 1)), "P"),
    Look(BROWN, (0, (2, 2)), "X"),
    Look(BLACK, (0, (8, 2, 2, 2)), "*"),
)
"""Looks of anything that is counted: models, sites, libraries, controls."""

BASELINE = Look(VERMILLION, (0, (4, 1.5)), "o")
OFO = Look(BLUE, "-", "s")
ACCEPTED = Look(BLUE, "-", "o")
REJECTED = Look(ORANGE, (0, (4, 1.5)), "x")


def series_look(position: int) -> Look:
    """The look of the series at a position; colours repeat after eight, then with other lines and markers."""
    round_, place = divmod(position, len(SERIES))
    other = SERIES[(place + round_) % len(SERIES)]
    return Look(SERIES[place].colour, other.line, other.marker)


_CONTROLS = {"none": BASELINE, "ofo": OFO}
_OTHER_CONTROLS = (SERIES[2], SERIES[3], SERIES[1], SERIES[4], SERIES[6], SERIES[7])


def control_looks(controls: Iterable[str]) -> dict[str, Look]:
    """The looks of controls by name: no control and OFO as everywhere, the others one after another."""
    looks: dict[str, Look] = {}
    for control in controls:
        others = len(looks.keys() - _CONTROLS.keys())
        looks[control] = _CONTROLS.get(control) or _OTHER_CONTROLS[others % len(_OTHER_CONTROLS)]
    return looks


def shortened(name: str) -> str:
    """A name that fits beside a figure: the middle of a long one is left out."""
    kept = (_MOST_CHARACTERS - 1) // 2
    return name if len(name) <= _MOST_CHARACTERS else f"{name[:kept]}…{name[-kept:]}"


def legend_inches(entries: int) -> float:
    """Height (inches) of axes that a legend of so many entries fits beside."""
    return 0.2 + 0.19 * entries


def legend_beside(axes: Any, **options: Any) -> None:
    """A legend to the right of the axes, where it hides nothing."""
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.04), "borderaxespad": 0.0, "handlelength": 2.6}
    for text in axes.legend(**place, **options).get_texts():
        text.set_text(shortened(text.get_text()))
