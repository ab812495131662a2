"""Pictures of several libraries side by side.

Pictures of an evaluation: controls side by side over the same scenarios.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scenario_lib._arrays import Floats
from scenario_lib.analysis.draws import CandidateColumns
from scenario_lib.plotting.panels import (
    GREY,
    KINDS,
    control_looks,
    house_style,
    legend_beside,
    legend_inches,
    new_figure,
    series_look,
    shortened,
)

_GREYS = ("#f2f2f2", "#cfcfcf", "#a8a8a8")
_HATCHES = ("", "///", "\\\\\\", "||", "--", "xx")


@house_style()
def plot_acceptance(libraries: Mapping[str, CandidateColumns]) -> Figure:
    """Shares of the candidates of each library by verdict; the accepted ones by kind, from the left."""
    figure = new_figure(1.1 + 0.42 * max(len(libraries), 3))
    axes = figure.add_subplot()
    left = np.zeros(len(libraries))
    for label, shares, look in _verdict_shares(libraries):
        axes.barh(range(len(libraries)), shares, left=left, label=label, **look)
        left += shares
    axes.set_yticks(range(len(libraries)), map(shortened, libraries))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("share of candidates")
    legend_beside(axes)
    return figure


def _verdict_shares(libraries: Mapping[str, CandidateColumns]) -> list[tuple[str, Floats, dict[str, Any]]]:
    """Label, share of each library, and look of every verdict that occurs."""
    found = []
    for kind, look in KINDS.items():
        shares = np.array([np.mean(one.accepted & (one.kind == kind)) for one in libraries.values()])
        found.append((f"accepted, {kind}", shares, {"color": look.colour, "edgecolor": "white"}))
    reasons = dict.fromkeys(reason for one in libraries.values() for reason in one.reason[~one.accepted].tolist())
    for position, reason in enumerate(sorted(reasons)):
        shares = np.array([np.mean(~one.accepted & (one.reason == reason)) for one in libraries.values()])
        style = {"facecolor": _GREYS[position % 3], "hatch": _HATCHES[position % 6], "edgecolor": GREY}
        found.append((reason.replace("_", " "), shares, style))
    return [entry for entry in found if np.any(entry[1] > 0)]


@house_style()
def plot_distributions(libraries: Mapping[str, CandidateColumns]) -> Figure:
    """Which part of each library's scenarios lies at or below a baseline integral, recovery, or window length."""
    figure = new_figure(max(3.2, legend_inches(len(libraries)) + 0.6))
    integral, recovery, window = figure.subplots(1, 3, sharey=True)
    for position, (name, columns) in enumerate(libraries.items()):
        look = {"color": series_look(position).colour, "linestyle": series_look(position).line, "label": name}
        for axes, values in (
            (integral, columns.baseline_integral_pu_s),
            (recovery, columns.recovery_frac),
            (window, columns.window_length_s),
        ):
            known = np.sort(values[columns.accepted & np.isfinite(values)])
            if known.size:
                axes.ecdf(known, **look)
    integral.set_xscale("log")
    integral.xaxis.set_major_formatter("{x:g}")
    integral.set_xlabel("baseline integral (pu s)")
    integral.set_ylabel("share of scenarios")
    recovery.set_xlabel("recovery by OFO")
    recovery.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    window.set_xlabel("control window (s)")
    integral.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if window.get_legend_handles_labels()[0]:
        legend_beside(window)
    return figure


@house_style()
def plot_trade_off(removed: Mapping[str, float], throughput: Mapping[str, float]) -> Figure:
    """How much violation each control removes, against the throughput that is left; NaN is left out.

    Args:
        removed: Control to the part of the integral violation that it removes.
        throughput: Control to its throughput relative to the largest batches.
    """
    figure = new_figure(max(3.8, legend_inches(len(removed)) + 0.6))
    axes = figure.add_subplot()
    for control, look in control_looks(removed).items():
        if np.isfinite(removed[control]) and np.isfinite(throughput[control]):
            spot = (throughput[control], removed[control])
            axes.scatter(*spot, color=look.colour, marker=look.marker, s=80, label=control)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.margins(0.15)
    axes.set_xlabel("throughput, relative to the largest batches")
    axes.set_ylabel("violation removed")
    if axes.get_legend_handles_labels()[0]:
        legend_beside(axes)
    return figure


@house_style()
def plot_scenario_integrals(integrals: Mapping[str, Floats], labels: Sequence[str]) -> Figure:
    """Integral violation (pu s) of every scenario under every control, hardest scenario last.

    Args:
        integrals: Control to its integral of each scenario, shape (n,); NaN where a rollout failed.
        labels: Of the scenarios, shape (n,).
    """
    figure = new_figure(max(3.8, legend_inches(len(integrals)) + 0.6))
    axes = figure.add_subplot()
    first = next(iter(integrals.values()))
    order = np.argsort(np.nan_to_num(first, nan=np.inf), kind="stable")
    spots = np.arange(len(order))
    for control, look in control_looks(integrals).items():
        axes.plot(
            spots, integrals[control][order], look.marker, color=look.colour, markersize=6, alpha=0.85, label=control
        )
    every = np.concatenate(list(integrals.values()))
    positive = every[np.isfinite(every) & (every > 0)]
    if positive.size:
        decade = 10.0 ** np.floor(np.log10(positive.min()))
        axes.set_yscale("symlog", linthresh=decade, linscale=0.6)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_ylim(bottom=-decade / 3)
    if len(labels) <= 30:
        axes.set_xticks(range(len(labels)), [labels[index] for index in order], rotation=60, ha="right", fontsize=8.5)
    axes.set_xlabel("scenario" if len(labels) <= 30 else "scenarios, by their violation under the first control")
    axes.set_ylabel("integral violation (pu s)")
    legend_beside(axes)
    return figure


@house_style()
def plot_spreads(figures: Mapping[str, Mapping[str, Floats]]) -> Figure:
    """One panel a figure, one box a control: median, quartiles, and all scenarios.

    Args:
        figures: Title with unit, to control, to values, shape (n,); NaN is left out.
    """
    controls = list(next(iter(figures.values())))
    n_rows = -(-len(figures) // 2)
    figure = new_figure(n_rows * (0.8 + 0.34 * max(len(controls), 2)))
    panels = list(figure.subplots(n_rows, 2, squeeze=False).flat)
    for axes, (title, of_control) in zip(panels, figures.items(), strict=False):
        _draw_boxes(axes, title, of_control)
    for axes in panels[len(figures) :]:
        axes.set_axis_off()
    for axes in panels[1::2]:
        axes.set_yticklabels([])
    return figure


def _draw_boxes(axes: Any, title: str, of_control: Mapping[str, Floats]) -> None:
    looks = control_looks(of_control)
    for position, (control, values) in enumerate(of_control.items()):
        known, look = values[np.isfinite(values)], looks[control]
        axes.plot(known, np.full(len(known), position), look.marker, color=look.colour, markersize=4, alpha=0.35)
        if known.size:
            box = {"color": look.colour, "linewidth": 1.6}
            axes.boxplot(
                known,
                positions=[position],
                orientation="horizontal",
                widths=0.6,
                showfliers=False,
                boxprops=box,
                whiskerprops=box,
                capprops=box,
                medianprops={**box, "linewidth": 3.0},
            )
    axes.set_yticks(range(len(of_control)), map(shortened, of_control))
    axes.set_ylim(len(of_control) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_title(title)
