"""The layout of figures over the hour: voltage panels by zone, then rows of one panel each, then one time axis."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scenario_lib.feeders.feeder import Limits
from scenario_lib.plotting.figures import new_figure
from scenario_lib.plotting.panels import draw_batches, draw_envelope, draw_limits, envelope, hour_axis, mark_window
from scenario_lib.plotting.style import control_looks, legend_beside, legend_inches, shortened
from scenario_lib.simulation.rollout import Rollout

KW_PER_W = 1e-3

_ROW_INCHES = 1.75
_LABELS = {"none": "without control", "ofo": "under OFO"}


def zone_columns(rollout: Rollout, zones: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Columns of a rollout's voltages by zone; one group of all where there are no zones."""
    zone_of = {bus.lower(): zone for zone, buses in zones.items() for bus in buses}
    columns: dict[str, list[int]] = {f"zone {zone}": [] for zone in zones}
    for position, (bus, _) in enumerate(rollout.bus_phases):
        zone = zone_of.get(bus.lower())
        columns.setdefault(f"zone {zone}" if zone else "outside zones" if zones else "all buses", []).append(position)
    return {title: members for title, members in columns.items() if members}


def figure_with_rows(n_zones: int, legends: Sequence[int]) -> tuple[Figure, list[list[Any]]]:
    """A figure, and its axes by row: zones two a row (one alone has it all), then rows of one.

    Args:
        n_zones: Voltage panels.
        legends: Entries of the legend of each row of one, which may need a higher row.
    """
    zone_rows, others = -(-n_zones // 2), len(legends)
    heights = [_ROW_INCHES] * zone_rows + [max(_ROW_INCHES, legend_inches(entries)) for entries in legends]
    figure = new_figure(sum(heights) + 0.5)
    grid = figure.add_gridspec(zone_rows + others, 2, height_ratios=heights)
    places = [grid[0, :]] if n_zones == 1 else [grid[index // 2, index % 2] for index in range(n_zones)]
    zones = [figure.add_subplot(place) for place in places]
    rows = [zones[2 * row : 2 * row + 2] for row in range(zone_rows)]
    return figure, rows + [[figure.add_subplot(grid[zone_rows + row, :])] for row in range(others)]


def draw_voltages(
    rows: list[list[Any]], rollouts: Sequence[Rollout], columns: Mapping[str, list[int]], limits: Limits
) -> None:
    """The envelopes of rollouts, one panel a group of columns, with the limits."""
    panels = [axes for row in rows for axes in row]
    for axes, (title, members) in zip(panels, columns.items(), strict=True):
        for rollout in rollouts:
            look = control_looks([rollout.policy])[rollout.policy]
            draw_envelope(axes, envelope(rollout.voltages_pu[:, members]), limits, look, _label(rollout.policy))
        axes.set_title(f"{shortened(title)}: lowest and highest voltage")
    draw_limits(panels, limits)
    for row in rows:
        row[0].set_ylabel("voltage (pu)")
    legend_beside(rows[0][-1])


def _label(policy: str) -> str:
    return _LABELS.get(policy, f"under {policy}")


def draw_batch_row(axes: Any, rollout: Rollout) -> None:
    """Batch sizes of all models; with their sites where there are several."""
    several = len(rollout.site_names) > 1
    batches = {
        f"{site}: {model}" if several else model: rollout.batch_sizes[:, column]
        for column, (site, model) in enumerate(rollout.model_labels)
    }
    draw_batches(axes, np.arange(len(rollout.batch_sizes)), batches)
    axes.set_title(f"batch sizes {_label(rollout.policy)}")
    legend_beside(axes)


def finish_hour(rows: list[list[Any]], seconds: int, window_s: tuple[float, float] | None) -> None:
    """Time axes, and the control window if there is one."""
    for row in rows:
        for axes in row:
            mark_window(axes, window_s)
            whole_row = len(axes.get_subplotspec().colspan) > 1
            hour_axis(axes, seconds, tick_s=600 if whole_row else 1200, label=row is rows[-1])
