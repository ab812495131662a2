"""The layout of figures over the hour: voltage panels by zone, then rows of one panel each, then one time axis.

The picture of one rollout.

The picture of an episode so far, as pixels.

The picture of a record: its hour without control and under OFO, and what drives it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from scenario_lib._arrays import Floats
from scenario_lib._values import instance_of
from scenario_lib.feeders.experiment import DURATION_S, VoltageLimits, as_limits
from scenario_lib.library.library import AnyLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.plotting.panels import (
    BASELINE,
    BLACK,
    GREY,
    HATCHES,
    OFO,
    Look,
    binned_mean,
    bins,
    control_looks,
    draw_batches,
    draw_envelope,
    draw_limits,
    draw_stack,
    envelope,
    hour_axis,
    house_style,
    legend_beside,
    legend_inches,
    mark_window,
    new_figure,
    series_look,
    shortened,
)
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.rollout import Rollout, power_shares
from scenario_lib.validation.replay import RecordRollouts, play_record

_KW_PER_W = 1e-3

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


def _figure_with_rows(n_zones: int, legends: Sequence[int]) -> tuple[Figure, list[list[Any]]]:
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


def _draw_voltages(
    rows: list[list[Any]], rollouts: Sequence[Rollout], columns: Mapping[str, list[int]], limits: VoltageLimits
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


def _draw_batch_row(axes: Any, rollout: Rollout) -> None:
    """Batch sizes of all models; with their sites where there are several."""
    several = len(rollout.site_names) > 1
    batches = {
        f"{site}: {model}" if several else model: rollout.batch_sizes[:, column]
        for column, (site, model) in enumerate(rollout.model_labels)
    }
    draw_batches(axes, np.arange(len(rollout.batch_sizes)), batches)
    axes.set_title(f"batch sizes {_label(rollout.policy)}")
    legend_beside(axes)


def _finish_hour(rows: list[list[Any]], seconds: int, window_s: tuple[float, float] | None) -> None:
    """Time axes, and the control window if there is one."""
    for row in rows:
        for axes in row:
            mark_window(axes, window_s)
            whole_row = len(axes.get_subplotspec().colspan) > 1
            hour_axis(axes, seconds, tick_s=600 if whole_row else 1200, label=row is rows[-1])


@house_style()
def plot_rollout(
    rollout: Rollout,
    limits: VoltageLimits | tuple[float, float] | None = None,
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
    limits = as_limits("limits", VoltageLimits() if limits is None else limits)
    zones = instance_of(Mapping, hint=" of zones to their buses")("zones", {} if zones is None else zones)
    columns = zone_columns(rollout, zones)
    figure, rows = _figure_with_rows(len(columns), legends=(len(rollout.model_labels), len(rollout.site_names)))
    _draw_voltages(rows[:-2], [rollout], columns, limits)
    _draw_batch_row(rows[-2][0], rollout)
    _draw_site_power(rows[-1][0], rollout)
    _finish_hour(rows, len(rollout.voltages_pu), None)
    return figure


def _draw_site_power(axes: Any, rollout: Rollout) -> None:
    times_s = bins(len(rollout.power_w))
    for position, site in enumerate(rollout.site_names):
        look = series_look(position)
        kw = binned_mean(rollout.power_w[:, position].sum(axis=1) * _KW_PER_W)
        axes.plot(times_s, kw, color=look.colour, linestyle=look.line, label=f"site {site}")
    axes.set_title("datacenter power, all phases")
    axes.set_ylabel("power (kW)")
    axes.set_ylim(bottom=0.0)
    legend_beside(axes)


_SIZE_INCHES = (8.0, 4.5)
_DPI = 80


@house_style()
def draw_episode(
    envelope: tuple[Floats, Floats, Floats], batches: Mapping[str, Sequence[int]], limits: VoltageLimits, title: str
) -> NDArray[np.uint8]:
    """Voltage envelope and batch sizes, shape (360, 640, 3).

    Args:
        envelope: Times (s), lowest and highest voltage (pu), each of shape (T,).
        batches: Label of each model to its batch sizes, of length T.
        limits: Voltage band.
        title: Text above the picture.
    """
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    voltage, batch = figure.subplots(2, 1, sharex=True)
    draw_envelope(voltage, envelope, limits, OFO, "all bus-phases")
    draw_limits([voltage], limits)
    voltage.set_title(title)
    voltage.set_ylabel("voltage (pu)")
    draw_batches(batch, envelope[0], batches)
    batch.set_xlabel("time (s)")
    if batches:
        batch.legend(fontsize="x-small", ncols=3)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def plot_scenario(
    library: AnyLibrary,
    record: ScenarioRecord | int,
    *,
    specs_dir: str | Path | None = None,
    system: str | Path | None = None,
) -> Figure:
    """A record's hour without control and under OFO; plays both rollouts again. See `plot_played` for what is drawn.

    Args:
        library: Where the record is from: its path, or the opened one.
        record: The record, or its index.
        specs_dir: Spec cache to play on; None means the shipped one.
        system: Experiment file, for a library on a feeder of the user's own.

    Raises:
        InvalidSettingError: The feeder does not ship, and no file is given.
        ReplayError: The scenario that is drawn now is not the one that was screened.
    """
    return plot_played(play_record(library, record, specs_dir, system))


@house_style()
def plot_played(played: RecordRollouts) -> Figure:
    """Voltages by zone, batch sizes under OFO, power by model, and PV systems and loads; the control window shaded."""
    feeder, record = played.experiment.feeder, played.record
    columns = zone_columns(played.baseline, feeder.zones)
    n_models, n_elements = len(played.ofo.model_labels), len(played.scenario.pv_systems) + len(played.scenario.tvl)
    figure, rows = _figure_with_rows(len(columns), legends=(n_models, n_models + 3, n_elements))
    _draw_voltages(rows[:-3], [played.baseline, played.ofo], columns, played.experiment.limits)
    _draw_batch_row(rows[-3][0], played.ofo)
    _draw_power_by_model(rows[-2][0], played)
    _draw_weather(rows[-1][0], played.scenario)
    _finish_hour(rows, len(played.ofo.voltages_pu), (record.t_control_start, record.t_control_end))
    return figure


def _draw_power_by_model(axes: Any, played: RecordRollouts) -> None:
    shares = power_shares(played.ofo, played.scenario, played.experiment, played.assets)
    times_s = bins(len(played.ofo.power_w))
    facility = sum((binned_mean(share.facility_kw) for share in shares.values()), np.zeros(len(times_s)))
    layers: dict[str, tuple[Floats, Look, str]] = {"facility": (facility, Look(GREY), "")}
    models = [(site, model, kw) for site, share in shares.items() for model, kw in share.model_kw.items()]
    for position, (site, model, kw) in enumerate(models):
        label = f"{site}: {model}" if len(shares) > 1 else model
        layers[label] = (binned_mean(kw), series_look(position), HATCHES[position % len(HATCHES)])
    training = sum((binned_mean(share.training_kw) for share in shares.values()), np.zeros(len(times_s)))
    if np.any(training > 0):
        layers["training job"] = (training, Look(BLACK), "")
    draw_stack(axes, times_s, layers)
    total = binned_mean(played.baseline.power_w.sum(axis=(1, 2)) * _KW_PER_W)
    axes.plot(times_s, total, color=BASELINE.colour, linestyle=BASELINE.line, label="total without control")
    axes.set_title("datacenter power by model under OFO, all sites and phases")
    axes.set_ylabel("power (kW)")
    legend_beside(axes, reverse=True)


def _draw_weather(axes: Any, scenario: Scenario) -> None:
    times_s = np.arange(0.0, DURATION_S, 5.0)
    groups = (("PV", scenario.pv_systems), ("load", scenario.tvl))
    elements = [(kind, element) for kind, members in groups for element in members]
    for position, (kind, element) in enumerate(elements):
        look = series_look(position)
        label = f"{kind} at bus {element.bus}"
        axes.plot(times_s, element.kw_per_phase(times_s), color=look.colour, linestyle=look.line, label=label)
    axes.set_title("PV generation and time-varying loads")
    axes.set_ylabel("kW per phase")
    axes.set_ylim(bottom=0.0)
    if elements:
        legend_beside(axes)
