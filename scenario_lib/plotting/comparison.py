"""Pictures of several libraries side by side."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scenario_lib.plotting.figures import new_figure
from scenario_lib.plotting.style import GREY, KINDS, house_style, legend_beside, legend_inches, series_look, shortened
from scenario_lib.scenario.curves import Array
from scenario_lib.screening.candidate_columns import CandidateColumns

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


def _verdict_shares(libraries: Mapping[str, CandidateColumns]) -> list[tuple[str, Array, dict[str, Any]]]:
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
