"""The picture of a record: its hour without control and under OFO, and what drives it."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.loader import AnyLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.plotting.hour import (
    KW_PER_W,
    draw_batch_row,
    draw_voltages,
    figure_with_rows,
    finish_hour,
    zone_columns,
)
from scenario_lib.plotting.panels import HATCHES, binned_mean, bins, draw_stack
from scenario_lib.plotting.style import BASELINE, BLACK, GREY, Look, house_style, legend_beside, series_look
from scenario_lib.scenario.curves import Array
from scenario_lib.scenario.model import Scenario
from scenario_lib.screening.record_rollouts import RecordRollouts, play_record
from scenario_lib.simulation.power_shares import power_shares


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
    figure, rows = figure_with_rows(len(columns), legends=(n_models, n_models + 3, n_elements))
    draw_voltages(rows[:-3], [played.baseline, played.ofo], columns, played.experiment.limits)
    draw_batch_row(rows[-3][0], played.ofo)
    _draw_power_by_model(rows[-2][0], played)
    _draw_weather(rows[-1][0], played.scenario)
    finish_hour(rows, len(played.ofo.voltages_pu), (record.t_control_start, record.t_control_end))
    return figure


def _draw_power_by_model(axes: Any, played: RecordRollouts) -> None:
    shares = power_shares(played.ofo, played.scenario, played.experiment, played.assets)
    times_s = bins(len(played.ofo.power_w))
    facility = sum((binned_mean(share.facility_kw) for share in shares.values()), np.zeros(len(times_s)))
    layers: dict[str, tuple[Array, Look, str]] = {"facility": (facility, Look(GREY), "")}
    models = [(site, model, kw) for site, share in shares.items() for model, kw in share.model_kw.items()]
    for position, (site, model, kw) in enumerate(models):
        label = f"{site}: {model}" if len(shares) > 1 else model
        layers[label] = (binned_mean(kw), series_look(position), HATCHES[position % len(HATCHES)])
    training = sum((binned_mean(share.training_kw) for share in shares.values()), np.zeros(len(times_s)))
    if np.any(training > 0):
        layers["training job"] = (training, Look(BLACK), "")
    draw_stack(axes, times_s, layers)
    total = binned_mean(played.baseline.power_w.sum(axis=(1, 2)) * KW_PER_W)
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
