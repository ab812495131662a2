"""How all figures look: one palette that the colour-blind can read, and never colour alone.

The colours are those of Okabe and Ito, "Color Universal Design" (2008), https://jfly.uni-koeln.de/color/, with a
brown for their yellow, which would vanish on white. Whatever is told apart by colour also differs by
marker or line style.

New figures, and figures as bytes: equal whenever the figures are and matplotlib is the same.

Panels over the hour that several figures share: voltage envelope, batch sizes, stacked power.
"""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from scenario_lib._arrays import Floats
from scenario_lib.feeders.experiment import DURATION_S, VoltageLimits

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


_WIDTH_INCHES = 9.0
"""Width of every figure: its text is as tall as that of the page at laptop width."""

_PNG_DPI = 150

# Coordinates along paths, in points: hundredths are finer than any screen, and half the size.
_PATH_LINE = re.compile(rb"^[MLCQz][^\n]*$", re.M)
_LONG_NUMBER = re.compile(rb"(\.\d\d)\d+")

# An SVG repeats its texts in comments, where XML forbids these.
_CONTROL_CHARACTERS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class NotebookFigure(Figure):
    """A figure that a notebook shows; plain figures are shown only where pyplot has been loaded."""

    def _repr_png_(self) -> bytes:
        return png_bytes(self)


def new_figure(height_inches: float) -> Figure:
    """An empty figure of the house's width."""
    return NotebookFigure(figsize=(_WIDTH_INCHES, height_inches), layout=ConstrainedLayoutEngine(h_pad=0.09))


def svg_bytes(figure: Figure) -> bytes:
    """The figure as SVG, with no date, and text as outlines, so that it looks the same wherever it is opened."""
    FigureCanvasSVG(figure)
    svg = _saved(figure, "svg", metadata={"Date": None, "Creator": None})
    svg = _CONTROL_CHARACTERS.sub(b"", svg)
    return _PATH_LINE.sub(lambda line: _LONG_NUMBER.sub(rb"\1", line[0]), svg)


def png_bytes(figure: Figure) -> bytes:
    """The figure as PNG."""
    FigureCanvasAgg(figure)
    return _saved(figure, "png", dpi=_PNG_DPI, metadata={"Software": None})


@house_style()
def _saved(figure: Figure, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the page beside has it as text.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(stream, format=kind, **options)
    return stream.getvalue()


_MOST_POINTS = 450
"""Points along a curve: about one a pixel, whatever the number of seconds."""

_APART_OCTAVES = 0.08
"""Distance of batch lines that would hide each other."""

HATCHES = ("", "", "///", "", "--", "", "\\\\\\", "||")
"""Hatches of stacked layers, so that neighbours differ by more than colour; lines only, dots make large files."""


def bins(seconds: int) -> NDArray[np.int64]:
    """First second of each bin that a curve of so many seconds is drawn in."""
    return np.arange(0, seconds, max(1, -(-seconds // _MOST_POINTS)), dtype=np.int64)


def envelope(voltages_pu: Floats) -> tuple[Floats, Floats, Floats]:
    """Times (s), lowest and highest voltage (pu) of voltages of shape (T, N); no extreme is lost by the bins."""
    starts = bins(len(voltages_pu))
    lowest = np.minimum.reduceat(voltages_pu.min(axis=1), starts)
    highest = np.maximum.reduceat(voltages_pu.max(axis=1), starts)
    return starts.astype(float), lowest, highest


def binned_mean(values: Floats) -> Floats:
    """Mean of each bin of `bins`, along the first axis."""
    starts = bins(len(values))
    counts = np.diff(np.append(starts, len(values)))
    return np.asarray(np.add.reduceat(values, starts, axis=0) / counts.reshape(-1, *[1] * (values.ndim - 1)))


def draw_envelope(
    axes: Any, curves: tuple[Floats, Floats, Floats], limits: VoltageLimits, look: Look, label: str
) -> None:
    """Lowest and highest voltage as lines, a faint band between them, and what lies outside the limits filled."""
    times_s, lowest, highest = curves
    axes.fill_between(times_s, lowest, highest, color=look.colour, alpha=0.08, linewidth=0)
    for curve, limit, outside in (
        (lowest, limits.v_min_pu, lowest < limits.v_min_pu),
        (highest, limits.v_max_pu, highest > limits.v_max_pu),
    ):
        axes.fill_between(times_s, curve, limit, where=outside, color=look.colour, alpha=0.35, linewidth=0)
    axes.plot(times_s, lowest, color=look.colour, linestyle=look.line, linewidth=1.1, label=label)
    axes.plot(times_s, highest, color=look.colour, linestyle=look.line, linewidth=1.1)


def draw_limits(panels: Sequence[Any], limits: VoltageLimits) -> None:
    """The band that voltages should stay in; all panels get one scale, which shows both limits and all curves."""
    margin = 0.05 * (limits.v_max_pu - limits.v_min_pu)
    ends = [axes.get_ylim() for axes in panels]
    low = min(limits.v_min_pu - margin, *(end[0] for end in ends))
    high = max(limits.v_max_pu + margin, *(end[1] for end in ends))
    for axes in panels:
        for limit in (limits.v_min_pu, limits.v_max_pu):
            axes.axhline(limit, color=BLACK, linewidth=1.0, linestyle=(0, (1, 1.5)))
        axes.set_ylim(low, high)


def mark_window(axes: Any, window_s: tuple[float, float] | None) -> None:
    """Shade the control window, if there is one."""
    if window_s is not None:
        axes.axvspan(*window_s, color=GREY, alpha=0.10, linewidth=0)


def draw_batches(axes: Any, times_s: Any, batches: Mapping[str, Any]) -> None:
    """Batch sizes over time as steps, on a scale of powers of two; lines are moved apart a little, to be seen.

    Args:
        times_s: Shape (T,).
        batches: Label of each model to its batch sizes, shape (T,).
    """
    for position, (label, sizes) in enumerate(batches.items()):
        look = series_look(position)
        apart = 2.0 ** (_APART_OCTAVES * (position - (len(batches) - 1) / 2))
        axes.step(times_s, np.asarray(sizes) * apart, where="post", color=look.colour, linestyle=look.line, label=label)
    axes.set_yscale("log", base=2)
    used = sorted({int(size) for sizes in batches.values() for size in np.unique(sizes)})
    if used:
        levels = 2 ** np.arange(np.floor(np.log2(used[0])), np.ceil(np.log2(used[-1])) + 1)
        axes.set_yticks(levels, [f"{level:.0f}" for level in levels])
        axes.set_ylim(levels[0] / 1.3, levels[-1] * 1.3)
    axes.minorticks_off()
    axes.set_ylabel("batch size")


def draw_stack(axes: Any, times_s: Any, layers: Mapping[str, tuple[Floats, Look, str]]) -> None:
    """Layers on top of each other.

    Args:
        layers: Label to values of shape (T,), look and hatch, from the lowest up.
    """
    floor = np.zeros(len(times_s))
    for label, (values, look, hatch) in layers.items():
        axes.fill_between(
            times_s,
            floor,
            floor + values,
            facecolor=look.colour,
            alpha=0.75,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.4,
            label=label,
        )
        floor = floor + values
    axes.set_ylim(bottom=0.0)


def hour_axis(axes: Any, seconds: int, tick_s: int, label: bool) -> None:
    """A time axis in seconds, in whole parts of the hour where it is one; only the lowest panel needs a label."""
    axes.set_xlim(0, seconds)
    if seconds == DURATION_S:
        axes.set_xticks(range(0, seconds + 1, tick_s))
    if label:
        axes.set_xlabel("time (s)")
