"""New figures, and figures as bytes: equal whenever the figures are and matplotlib is the same."""

import io
import re
import warnings
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from scenario_lib.plotting.style import house_style

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
