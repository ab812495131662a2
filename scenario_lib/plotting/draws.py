"""The picture of what was drawn, accepted beside rejected: it shows the bias of the screening."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scenario_lib.plotting.figures import new_figure
from scenario_lib.plotting.style import ACCEPTED, REJECTED, house_style
from scenario_lib.scenario.curves import Array
from scenario_lib.screening.draws import Draws, gap_by_chance, largest_gap

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


def _draw_distributions(axes: Any, name: str, values: Array, accepted: Any) -> None:
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


def _title(name: str, accepted: Array, rejected: Array) -> str:
    if not len(accepted) or not len(rejected):
        return name
    gap, chance = largest_gap(accepted, rejected), gap_by_chance(len(accepted), len(rejected))
    return f"{name}\ngap {gap:.2f} (by chance {min(chance, 1.0):.2f}){' - differs' if gap > chance else ''}"


def _edges(values: Array) -> Array:
    """Edges of bins; one around each value where there are few different ones."""
    different = np.unique(values)
    if 1 < len(different) <= 8:
        middles = (different[1:] + different[:-1]) / 2
        ends = (2 * different[0] - middles[0], 2 * different[-1] - middles[-1])
        return np.concatenate([[ends[0]], middles, [ends[1]]])
    bins = int(np.clip(np.sqrt(len(values)), 6, _MOST_BINS))
    return np.linspace(different[0], different[-1], bins + 1)
