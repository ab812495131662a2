"""Pictures of all candidates of a library: verdicts, difficulty, control windows.

The picture of what was drawn, accepted beside rejected: it shows the bias of the screening.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scenario_lib._arrays import Floats
from scenario_lib.analysis.draws import CandidateColumns, Draws, gap_by_chance, largest_gap
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.plotting.panels import ACCEPTED, GREY, KINDS, REJECTED, house_style, legend_beside, new_figure

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


_MOST_BINS = 24


@house_style()
def plot_draws(draws: Draws) -> Figure:
    """Distributions of the drawn parameters, accepted beside rejected, each as a share of its own group.

    The gap in a title is the largest distance between the two distribution functions; one above the number after it
    comes about by chance in one case of twenty, so several of many panels may.
    """
    varying = draws.varying()
    n_rows = max(1, -(-len(varying) // 3))
    figure = new_figure(0.5 + 1.9 * n_rows)
    panels = list(figure.subplots(n_rows, 3, squeeze=False).flat)
    for axes, (name, values) in zip(panels, varying.items(), strict=False):
        _draw_distributions(axes, name, values, draws.accepted)
    for axes in panels[len(varying) :]:
        axes.set_axis_off()
    for axes in panels[::3]:
        axes.set_ylabel("share")
    if varying:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2)
    return figure


def _draw_distributions(axes: Any, name: str, values: Floats, accepted: Any) -> None:
    known = np.isfinite(values)
    groups = {"accepted": values[known & accepted], "rejected": values[known & ~accepted]}
    edges = _edges(values[known])
    for (label, group), look in zip(groups.items(), (ACCEPTED, REJECTED), strict=True):
        if len(group):
            share, _ = np.histogram(group, edges)
            axes.stairs(share / len(group), edges, color=look.colour, linestyle=look.line, linewidth=1.6, label=label)
    if len(groups["accepted"]):
        share, _ = np.histogram(groups["accepted"], edges)
        axes.stairs(share / len(groups["accepted"]), edges, color=ACCEPTED.colour, alpha=0.18, fill=True)
    axes.set_ylim(bottom=0.0)
    axes.set_title(_title(name, *groups.values()), fontsize=9.5)


def _title(name: str, accepted: Floats, rejected: Floats) -> str:
    if not len(accepted) or not len(rejected):
        return name
    gap, chance = largest_gap(accepted, rejected), gap_by_chance(len(accepted), len(rejected))
    return f"{name}\ngap {gap:.2f} (by chance {min(chance, 1.0):.2f}){' - differs' if gap > chance else ''}"


def _edges(values: Floats) -> Floats:
    """Edges of bins; one around each value where there are few different ones."""
    different = np.unique(values)
    if 1 < len(different) <= 8:
        middles = (different[1:] + different[:-1]) / 2
        ends = (2 * different[0] - middles[0], 2 * different[-1] - middles[-1])
        return np.concatenate([[ends[0]], middles, [ends[1]]])
    bins = int(np.clip(np.sqrt(len(values)), 6, _MOST_BINS))
    return np.linspace(different[0], different[-1], bins + 1)
