"""Numbers as people read them.

A page as plain values, and how it becomes one HTML file: figures inside, no script, nothing fetched.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from matplotlib.figure import Figure

from scenario_lib._files import replacing
from scenario_lib.errors import BuildRefusedError, MissingDataError
from scenario_lib.plotting.panels import png_bytes, svg_bytes

DASH = "-"
"""Shown in place of a figure that is missing."""

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


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with what those read who do not see it.

    Attributes:
        name: Of its files, and the end of its anchor; letters, digits and hyphens.
        alt: What it shows, with the figures that matter.
        caption: How to read it.
    """

    name: str
    figure: Figure
    alt: str
    caption: str

    @property
    def source(self) -> str:
        """The figure as a data URI."""
        return "data:image/svg+xml;base64," + base64.b64encode(svg_bytes(self.figure)).decode()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first cell of a row is its head.

    Attributes:
        folded: Shown only when asked for.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, in the order text, tables, pictures, sub-sections.

    Attributes:
        verdict: "good", "bad" or "open" colours the text; "" does not.
    """

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    parts: tuple["Section", ...] = ()
    verdict: str = ""

    @property
    def anchor(self) -> str:
        """Name that links within the page use."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def all_pictures(self) -> Iterator[Picture]:
        """Pictures of this section and its parts."""
        yield from self.pictures
        for part in self.parts:
            yield from part.all_pictures()


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its title, one sentence that says it all, and its sections."""

    title: str
    lead: str
    sections: tuple[Section, ...]

    def to_html(self) -> str:
        """The page as HTML; every text is escaped."""
        return _template().render(page=self)


@cache
def _template() -> Template:
    loader = PackageLoader("scenario_lib.reporting")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")


_MARK = b'<meta name="generator" content="scenario-lib">'
_HEAD_BYTES = 4096


def require_page_place(path: Path) -> None:
    """Refuse a place where something else is than a page of ours, before the page is made.

    Raises:
        BuildRefusedError: Naming the file.
    """
    if not path.exists() and not path.is_symlink():
        return
    if path.is_file() and not path.is_symlink():
        with path.open("rb") as stream:
            if _MARK in stream.read(_HEAD_BYTES):
                return
    raise BuildRefusedError(f"{path}: is there, and is no page by scenario-lib; move it away, or choose another --out")


def write_page(path: Path, page: Page, figures: Path | None = None) -> None:
    """Write a page, and its figures as SVG and PNG into a directory of their own if there is to be one.

    Raises:
        MissingDataError: A directory cannot be made.
    """
    html = page.to_html()
    for folder in filter(None, (path.parent, figures)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MissingDataError(f"{folder}: cannot be made ({error.strerror}); choose another place") from None
    if figures is not None:
        for picture in (picture for section in page.sections for picture in section.all_pictures()):
            for suffix, content in (("svg", svg_bytes(picture.figure)), ("png", png_bytes(picture.figure))):
                with replacing(figures / f"{picture.name}.{suffix}") as stream:
                    stream.write(content)
    with replacing(path) as stream:
        stream.write(html.encode())
