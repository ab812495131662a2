"""The picture of one rollout."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from scenario_lib.feeders.arguments import instance_of
from scenario_lib.feeders.feeder import Limits, as_limits
from scenario_lib.plotting.hour import (
    KW_PER_W,
    draw_batch_row,
    draw_voltages,
    figure_with_rows,
    finish_hour,
    zone_columns,
)
from scenario_lib.plotting.panels import binned_mean, bins
from scenario_lib.plotting.style import house_style, legend_beside, series_look
from scenario_lib.simulation.rollout import Rollout


@house_style()
def plot_rollout(
    rollout: Rollout,
    limits: Limits | tuple[float, float] | None = None,
    zones: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Voltage envelope, batch sizes and power of one rollout.

    Args:
        rollout: As `run_rollout` returns it.
        limits: Voltage band to show, also as (0.95, 1.05); None means ANSI C84.1 Range A.
        zones: Zone to its buses, such as a feeder's `zones`; one voltage panel for each.

    Raises:
        InvalidSettingError: An argument of another type.
    """
    instance_of(Rollout, hint=" as run_rollout returns it")("rollout", rollout)
    limits = as_limits("limits", Limits() if limits is None else limits)
    zones = instance_of(Mapping, hint=" of zones to their buses")("zones", {} if zones is None else zones)
    columns = zone_columns(rollout, zones)
    figure, rows = figure_with_rows(len(columns), legends=(len(rollout.model_labels), len(rollout.site_names)))
    draw_voltages(rows[:-2], [rollout], columns, limits)
    draw_batch_row(rows[-2][0], rollout)
    _draw_site_power(rows[-1][0], rollout)
    finish_hour(rows, len(rollout.voltages_pu), None)
    return figure


def _draw_site_power(axes: Any, rollout: Rollout) -> None:
    times_s = bins(len(rollout.power_w))
    for position, site in enumerate(rollout.site_names):
        look = series_look(position)
        kw = binned_mean(rollout.power_w[:, position].sum(axis=1) * KW_PER_W)
        axes.plot(times_s, kw, color=look.colour, linestyle=look.line, label=f"site {site}")
    axes.set_title("datacenter power, all phases")
    axes.set_ylabel("power (kW)")
    axes.set_ylim(bottom=0.0)
    legend_beside(axes)
