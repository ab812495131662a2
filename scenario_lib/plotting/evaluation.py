"""Pictures of an evaluation: controls side by side over the same scenarios."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scenario_lib.plotting.figures import new_figure
from scenario_lib.plotting.style import control_looks, house_style, legend_beside, legend_inches, shortened
from scenario_lib.scenario.curves import Array


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
def plot_scenario_integrals(integrals: Mapping[str, Array], labels: Sequence[str]) -> Figure:
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
def plot_spreads(figures: Mapping[str, Mapping[str, Array]]) -> Figure:
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


def _draw_boxes(axes: Any, title: str, of_control: Mapping[str, Array]) -> None:
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
