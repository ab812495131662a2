"""Figures as a person reads them.

What a library holds, for a person who is about to train on it.
"""

import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib._values import NO_LIMIT
from scenario_lib.library.arrow_store import column_of, kinds_of
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.layout import CANDIDATES
from scenario_lib.library.metadata import LibraryContents, read_contents
from scenario_lib.library.provenance import built_on
from scenario_lib.library.recipe import Recipe
from scenario_lib.screening.criteria import KINDS, as_screened, tuning_text

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


@dataclass(frozen=True, slots=True)
class StratumInfo:
    """What a library with several recipes holds of one of them.

    Attributes:
        name: What the user called it; None for a recipe of a library without strata, merged into this one.
        kinds: Records by kind of violation.
        quota: Records of each kind that were asked for; empty without a quota.
    """

    recipe: str
    name: str | None
    candidates: int
    kinds: dict[str, int]
    quota: dict[str, int]

    @property
    def line(self) -> str:
        """The stratum as text."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items()) or "none"
        quota = ", ".join(f"{count} {kind}" for kind, count in self.quota.items() if count)
        asked = f"; asked for {quota}" if quota else ""
        return f"{self.name or self.recipe} ({self.recipe}): {kinds} of {self.candidates} candidates{asked}"


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """Facts about a library.

    Attributes:
        systems: Feeders of its recipes.
        kinds: Records by kind of violation.
        strata: The same for each recipe; empty for a library of one.
        reasons: Candidates by verdict; empty for a library without a candidates table.
        recovery, integral_pu_s, window_s: Spread over the records; None for an empty library.
        data: Digests of what the rollouts of each recipe read.
        cpu_features: Of the processor that built it; empty if the build log does not say.
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
    strata: tuple[StratumInfo, ...]
    screening: dict[str, float]
    ofo: tuple[str, ...]
    versions: dict[str, str]
    data: dict[str, dict[str, str]]
    cpu_features: tuple[str, ...]
    verifiable: bool
    reproducible: bool

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain values."""
        return {**asdict(self), "path": str(self.path)}

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
        lines += [f"stratum             {stratum.line}" for stratum in self.strata]
        for label, spread, unit in (
            ("recovery by OFO", self.recovery, ""),
            ("baseline integral", self.integral_pu_s, "pu s"),
            ("control window", self.window_s, "s"),
        ):
            if spread:
                lines.append(f"{label:20}{spread_text(spread, unit)}")
        if self.screening:
            lines.append(
                f"screening           {', '.join(f'{n} {threshold_text(v)}' for n, v in self.screening.items())}"
            )
        lines += [f"ofo                 {text}" for text in self.ofo]
        if self.versions:
            lines.append(f"built with          {', '.join(f'{n} {v}' for n, v in self.versions.items())}")
        if self.cpu_features:
            lines.append(f"processor features  {', '.join(self.cpu_features)}")
        lines.append(f"recipes             {', '.join(self.recipes) or 'not stated'}")
        for recipe, digests in self.data.items():
            shown = ", ".join(f"{name} {digest[:12]}" for name, digest in digests.items())
            lines.append(f"data of recipe      {recipe}: {shown}")
        if not self.verifiable:
            lines.append("note                no digests: written by openg2g's example, replays cannot be proven equal")
        if not self.reproducible:
            lines.append("note                not reproducible: some candidates were decided by a timeout or a crash")
        return lines


def library_info(path: Path) -> LibraryInfo:
    """Facts about the library at `path`, which may be empty.

    Raises:
        LibraryError: Not a library, or damaged.
    """
    path = path.resolve()
    contents = read_contents(path)
    rows, records = _rows(path, contents), contents.records
    return LibraryInfo(
        path=path,
        systems=tuple(sorted({recipe.experiment.name for recipe in contents.recipes.values()})),
        records=len(records),
        kinds=dict(Counter(kinds_of(records))),
        reasons=dict(Counter(row["reason"] for row in rows).most_common()),
        recovery=_spread(column_of(records, "recovery_frac")),
        integral_pu_s=_spread(column_of(records, "baseline_integral")),
        window_s=_spread(column_of(records, "t_control_end") - column_of(records, "t_control_start")),
        overlays=sum(overlay is not None for overlay in column_of(records, "training_overlay")),
        recipes=tuple(name for name in contents.recipes if name),
        strata=_strata(contents, rows),
        screening=contents.screening,
        ofo=_ofo(contents),
        versions=contents.versions,
        data={name: _data(recipe) for name, recipe in contents.recipes.items() if name},
        cpu_features=tuple(map(str, built_on(path).get("cpu_features", ()))),
        verifiable=bool(contents.digests),
        reproducible=contents.reproducible,
    )


def _ofo(contents: LibraryContents) -> tuple[str, ...]:
    """How OFO is tuned in screening, and in rollouts and evaluations of an experiment; each different text once."""
    experiments = [recipe.experiment for recipe in contents.recipes.values()]
    texts = (
        f"screened with {tuning_text(as_screened(experiment).ofo)}; evaluated with {tuning_text(experiment.ofo)}"
        for experiment in experiments
    )
    return tuple(dict.fromkeys(texts))


def _data(recipe: Recipe) -> dict[str, str]:
    data = recipe.data
    if data is None:
        return {}
    return {"circuit": data.circuit, "models": data.models, "training trace": data.training_trace}


def _rows(path: Path, contents: LibraryContents) -> list[dict[str, Any]]:
    if not contents.digests:
        return []
    with contents.unchanged(path / CANDIDATES) as stream:
        table = read_candidates(path / CANDIDATES, stream)
    rows: list[dict[str, Any]] = table.select(["reason", "recipe"]).to_pylist()
    return rows


def _strata(contents: LibraryContents, rows: list[dict[str, Any]]) -> tuple[StratumInfo, ...]:
    if len(contents.recipes) < 2:
        return ()
    candidates = Counter(row["recipe"] for row in rows)
    kinds = Counter((record.digests.recipe, record.kind) for record in contents.records if record.digests)
    quotas = {stratum.recipe: stratum.quota for stratum in contents.strata}
    return tuple(
        StratumInfo(
            recipe=recipe_id,
            name=recipe.stratum,
            candidates=candidates[recipe_id],
            kinds={kind: count for kind in KINDS if (count := kinds[recipe_id, kind])},
            quota=quotas.get(recipe_id, {}),
        )
        for recipe_id, recipe in contents.recipes.items()
    )


def _spread(values: NDArray[Any]) -> Spread | None:
    if not len(values):
        return None
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return float(low), float(middle), float(high)
