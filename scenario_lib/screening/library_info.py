"""What a library holds, for a person who is about to train on it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.columns import column_of, kinds_of
from scenario_lib.library.contents import LibraryContents, read_contents
from scenario_lib.library.files import CANDIDATES

Spread = tuple[float, float, float]
"""Lowest value, median, highest value."""


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """Facts about a library.

    Attributes:
        systems: Feeders of its recipes.
        kinds: Records by kind of violation.
        reasons: Candidates by verdict; empty for a library without a candidates table.
        recovery, integral_pu_s, window_s: Spread over the records; None for an empty library.
    """

    path: Path
    systems: tuple[str, ...]
    records: int
    kinds: dict[str, int]
    reasons: dict[str, int]
    recovery: Spread | None
    integral_pu_s: Spread | None
    window_s: Spread | None
    overlays: int
    recipes: tuple[str, ...]
    screening: dict[str, float]
    versions: dict[str, str]
    verifiable: bool
    reproducible: bool

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain values."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in _items(self)}

    def lines(self) -> list[str]:
        """The facts as text."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items()) or "none"
        lines = [
            f"{self.path}",
            f"records             {self.records} on {', '.join(self.systems)}: {kinds}; {self.overlays} with overlay",
        ]
        if self.reasons:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items())
            lines.append(f"candidates          {sum(self.reasons.values())}: {reasons}")
        for label, spread, unit in (
            ("recovery by OFO", self.recovery, ""),
            ("baseline integral", self.integral_pu_s, " pu s"),
            ("control window", self.window_s, " s"),
        ):
            if spread:
                low, middle, high = spread
                lines.append(f"{label:20}min {low:.3g}, median {middle:.3g}, max {high:.4g}{unit}")
        if self.screening:
            lines.append(f"screening           {', '.join(f'{n} {v:g}' for n, v in self.screening.items())}")
        if self.versions:
            lines.append(f"built with          {', '.join(f'{n} {v}' for n, v in self.versions.items())}")
        lines.append(f"recipes             {', '.join(self.recipes) or 'not stated'}")
        if not self.verifiable:
            lines.append("note                no digests: written by openg2g's example, replays cannot be proven equal")
        if not self.reproducible:
            lines.append("note                not reproducible: some candidates were decided by a timeout or a crash")
        return lines


def _items(info: LibraryInfo) -> list[tuple[str, Any]]:
    return [(name, getattr(info, name)) for name in LibraryInfo.__slots__]


def library_info(path: Path) -> LibraryInfo:
    """Facts about the library at `path`, which may be empty.

    Raises:
        LibraryError: Not a library, or damaged.
    """
    path = path.resolve()
    contents = read_contents(path)
    records = contents.records
    return LibraryInfo(
        path=path,
        systems=tuple(sorted({recipe.experiment.name for recipe in contents.recipes.values()})),
        records=len(records),
        kinds=dict(Counter(kinds_of(records))),
        reasons=_reasons(path, contents),
        recovery=_spread(column_of(records, "recovery_frac")),
        integral_pu_s=_spread(column_of(records, "baseline_integral")),
        window_s=_spread(column_of(records, "t_control_end") - column_of(records, "t_control_start")),
        overlays=sum(overlay is not None for overlay in column_of(records, "training_overlay")),
        recipes=tuple(name for name in contents.recipes if name),
        screening=contents.screening,
        versions=contents.versions,
        verifiable=bool(contents.digests),
        reproducible=contents.reproducible,
    )


def _reasons(path: Path, contents: LibraryContents) -> dict[str, int]:
    if not contents.digests:
        return {}
    contents.require_unchanged(path / CANDIDATES)
    return dict(Counter(read_candidates(path / CANDIDATES).column("reason").to_pylist()).most_common())


def _spread(values: NDArray[Any]) -> Spread | None:
    if not len(values):
        return None
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return float(low), float(middle), float(high)
