"""Pictures of all candidates of a library: verdicts, difficulty, control windows."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.plotting.figures import new_figure
from scenario_lib.plotting.style import ACCEPTED, GREY, KINDS, house_style, legend_beside
from scenario_lib.screening.candidate_columns import CandidateColumns

LOWEST_RECOVERY = -0.25
"""Recoveries below are drawn at this edge: OFO can make a scenario worse by any factor."""

_RASTER_FROM = 2000
"""From this many points on they are drawn as an image, which keeps the file small."""

_FLOORS = ("min_baseline_integral", "min_baseline_integral_over")


@house_style()
def plot_verdicts(columns: CandidateColumns) -> Figure:
    """How many candidates were accepted, of which kind, and why the others were not."""
    reasons, counts = np.unique(columns.reason[~columns.accepted], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    labels = ["accepted", *(str(reason).replace("_", " ") for reason in reasons[order])]
    figure = new_figure(0.9 + 0.34 * len(labels))
    axes = figure.add_subplot()
    left = 0
    for kind, look in KINDS.items():
        count = int(np.count_nonzero(columns.accepted & (columns.kind == kind)))
        if count:
            axes.barh(0, count, left=left, color=look.colour, edgecolor="white", label=f"accepted, {kind}")
        left += count
    for row, count in enumerate(counts[order].tolist(), start=1):
        axes.barh(row, count, color="#b5b5b5", edgecolor=GREY, label="rejected" if row == 1 else None)
    for row, count in enumerate([left, *counts[order].tolist()]):
        axes.annotate(f" {count}", (count, row), va="center")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("candidates")
    legend_beside(axes)
    return figure


@house_style()
def plot_difficulty(columns: CandidateColumns, screening: dict[str, float]) -> Figure:
    """How much is to be fixed (baseline integral) against how much OFO fixes, by kind; the accepted ones filled.

    Args:
        columns: All candidates; those without a violation are left out.
        screening: The criteria by name, whose thresholds are drawn.
    """
    figure = new_figure(4.4)
    axes = figure.add_subplot()
    measured = (columns.baseline_integral_pu_s > 0) & np.isfinite(columns.recovery_frac)
    for kind, look in KINDS.items():
        for accepted in (False, True):
            shown = measured & (columns.kind == kind) & (columns.accepted == accepted)
            if np.any(shown):
                fill = {"color": look.colour} if accepted else {"facecolors": "none", "edgecolors": look.colour}
                label = f"{kind}, {'accepted' if accepted else 'rejected'}"
                _scatter(axes, columns, shown, label=label, marker=look.marker, **fill)
    unmeasured = (columns.baseline_integral_pu_s > 0) & np.isnan(columns.recovery_frac)
    if np.any(unmeasured):
        x = columns.baseline_integral_pu_s[unmeasured]
        axes.plot(x, np.full(len(x), LOWEST_RECOVERY - 0.08), "|", color=GREY, label="OFO not simulated")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    floors = _FLOORS[:1] if set(columns.kind) <= {"", "under"} else _FLOORS
    _draw_thresholds(axes, {name: screening[name] for name in ("min_recovery_frac", *floors) if name in screening})
    axes.set_ylim(LOWEST_RECOVERY - 0.13, 1.05)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("baseline integral violation (pu s)")
    axes.set_ylabel("recovery by OFO")
    if axes.get_legend_handles_labels()[0]:
        legend_beside(axes)
    return figure


def _scatter(axes: Any, columns: CandidateColumns, shown: Any, **look: Any) -> None:
    x = columns.baseline_integral_pu_s[shown]
    y = np.maximum(columns.recovery_frac[shown], LOWEST_RECOVERY)
    axes.scatter(x, y, s=28, linewidths=1.0, alpha=0.85, rasterized=len(columns) >= _RASTER_FROM, **look)


def _draw_thresholds(axes: Any, screening: dict[str, float]) -> None:
    dotted = {"color": "black", "linewidth": 1.0, "linestyle": (0, (1, 1.5))}
    if "min_recovery_frac" in screening:
        axes.axhline(screening["min_recovery_frac"], label="least recovery, baseline", **dotted)
    for name in _FLOORS:
        if screening.get(name, 0.0) > 0:
            axes.axvline(screening[name], **dotted)


@house_style()
def plot_windows(columns: CandidateColumns) -> Figure:
    """Lengths of the accepted candidates' control windows, and which part of them covers each second of the hour."""
    figure = new_figure(2.6)
    lengths, coverage = figure.subplots(1, 2)
    kept = columns.accepted & np.isfinite(columns.window_length_s)
    if np.any(kept):
        edges = np.linspace(0, DURATION_S, 19)
        lengths.hist(columns.window_length_s[kept], bins=edges, color=ACCEPTED.colour, edgecolor="white")
        seconds = np.arange(0, DURATION_S, 10)
        starts, ends = np.sort(columns.window_start_s[kept]), np.sort(columns.window_end_s[kept])
        inside = np.searchsorted(starts, seconds, "right") - np.searchsorted(ends, seconds, "left")
        coverage.fill_between(seconds, inside / np.count_nonzero(kept), step="post", color=ACCEPTED.colour, alpha=0.5)
    lengths.set_xlabel("length of the control window (s)")
    lengths.set_ylabel("scenarios")
    lengths.yaxis.set_major_locator(MaxNLocator(integer=True))
    lengths.set_xlim(0, DURATION_S)
    coverage.set_xlabel("time (s)")
    coverage.set_ylabel("inside the window")
    coverage.set_xlim(0, DURATION_S)
    coverage.set_ylim(0, 1.02)
    coverage.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for axes in (lengths, coverage):
        axes.set_xticks(range(0, DURATION_S + 1, 600))
    return figure
