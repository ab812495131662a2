"""A feeder on its bus coordinates: branches, zones, what stands where, and voltages if there are any."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from scenario_lib._arrays import Floats
from scenario_lib._values import instance_of
from scenario_lib.feeders.experiment import Experiment, Feeder, VoltageLimits, as_limits
from scenario_lib.feeders.experiment_file import as_experiment
from scenario_lib.plotting.panels import BLACK, GREY, house_style, new_figure, series_look
from scenario_lib.simulation.opendss.check import Topology, read_topology
from scenario_lib.simulation.rollout import Rollout

_HEIGHT_INCHES = 4.6
_NAME_POINTS, _CHARACTER_POINTS = 8.5, 5.6
_NAME_OFFSETS_POINTS = ((7, 6), (7, -12), (-22, 6), (-22, -12))
_MAP_POINTS = (400.0, 230.0)
"""Size of the map, roughly: enough to see which names would lie on each other."""


@house_style()
def plot_feeder(
    feeder: Feeder | Experiment | str | Path,
    voltages: Mapping[str, float] | None = None,
    limits: VoltageLimits | tuple[float, float] | None = None,
) -> Figure:
    """A feeder on its bus coordinates.

    Args:
        feeder: A feeder, or an experiment (also as `load_experiment` takes it), whose sites, PV systems and loads are
            then marked.
        voltages: Voltage (pu) of each bus to colour, such as `worst_voltages` of a rollout; without it, buses have
            the colours of their zones.
        limits: Voltage band; None means that of the experiment, or ANSI C84.1 Range A. Buses outside it get a ring.

    Raises:
        InvalidSettingError: An argument of another type.
        MissingDataError: Neither the file beside the circuit nor the circuit says where buses are.
    """
    if isinstance(feeder, Feeder):
        experiment, plain = None, feeder
    else:
        experiment = as_experiment("feeder", feeder)
        plain = experiment.feeder
    instance_of(Mapping, hint=" of buses to voltages (pu)")("voltages", {} if voltages is None else voltages)
    own = VoltageLimits() if experiment is None else experiment.limits
    band = as_limits("limits", own if limits is None else limits)
    topology = read_topology(plain)
    figure = new_figure(_HEIGHT_INCHES)
    axes = figure.add_subplot()
    _draw_branches(axes, topology)
    if voltages is None:
        _draw_zones(axes, topology, plain.zones)
    else:
        _draw_voltages(figure, axes, topology, {bus.lower(): value for bus, value in voltages.items()}, band)
    marked = _draw_elements(axes, topology, experiment) if experiment else set()
    _write_names(axes, topology, marked)
    axes.set_axis_off()
    axes.margins(0.06)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)
    return figure


def worst_voltages(rollout: Rollout, limits: VoltageLimits | None = None) -> dict[str, float]:
    """For each bus, the voltage (pu) over all seconds and phases that is farthest from the middle of the band."""
    band = limits or VoltageLimits()
    middle = (band.v_min_pu + band.v_max_pu) / 2
    lowest, highest = rollout.voltages_pu.min(axis=0), rollout.voltages_pu.max(axis=0)
    extreme = np.where(middle - lowest > highest - middle, lowest, highest)
    worst: dict[str, float] = {}
    for (bus, _), value in zip(rollout.bus_phases, extreme.tolist(), strict=True):
        if bus not in worst or abs(value - middle) > abs(worst[bus] - middle):
            worst[bus] = value
    return worst


def _draw_branches(axes: Any, topology: Topology) -> None:
    at = topology.positions
    lines = [(at[first], at[second]) for first, second in topology.branches if first in at and second in at]
    axes.add_collection(LineCollection(lines, colors=GREY, linewidths=1.0, zorder=1))


def _draw_zones(axes: Any, topology: Topology, zones: Mapping[str, Sequence[str]]) -> None:
    members = {
        zone: [bus.lower() for bus in buses if bus.lower() in topology.positions] for zone, buses in zones.items()
    }
    zoned = {bus for buses in members.values() for bus in buses}
    rest = [bus for bus in topology.positions if bus not in zoned]
    _scatter(axes, topology, rest, color=GREY, s=16)
    for position, (zone, buses) in enumerate(members.items()):
        look = series_look(position)
        _scatter(axes, topology, buses, color=look.colour, marker=look.marker, s=24, label=f"zone {zone}")


def _draw_voltages(
    figure: Figure, axes: Any, topology: Topology, voltages: Mapping[str, float], limits: VoltageLimits
) -> None:
    known = [bus for bus in topology.positions if bus in voltages]
    _scatter(axes, topology, [bus for bus in topology.positions if bus not in voltages], color="#c8c8c8", s=10)
    values = [voltages[bus] for bus in known]
    span = max([limits.v_max_pu - limits.v_min_pu, *(abs(2 * v - limits.v_min_pu - limits.v_max_pu) for v in values)])
    middle = (limits.v_min_pu + limits.v_max_pu) / 2
    dots = _scatter(axes, topology, known, c=values, cmap="PuOr", vmin=middle - span / 2, vmax=middle + span / 2, s=34)
    dots.set_edgecolor(GREY)
    dots.set_linewidth(0.5)
    outside = [bus for bus in known if not limits.v_min_pu <= voltages[bus] <= limits.v_max_pu]
    if outside:
        label = f"outside {limits.v_min_pu:g} to {limits.v_max_pu:g} pu"
        _scatter(axes, topology, outside, facecolors="none", edgecolors=BLACK, linewidths=1.6, s=90, label=label)
    bar = figure.colorbar(dots, ax=axes, pad=0.01, shrink=0.85, label="voltage (pu)")
    bar.outline.set_visible(False)


def _draw_elements(axes: Any, topology: Topology, experiment: Experiment) -> set[str]:
    """Mark sites, PV systems and loads; returns their buses."""
    groups = (
        ("datacenter", "s", 150, [site.bus.lower() for site in experiment.sites]),
        ("PV system", "^", 110, [system.bus.lower() for system in experiment.pv_systems]),
        ("time-varying load", "v", 110, [load.bus.lower() for load in experiment.loads]),
    )
    for label, marker, size, buses in groups:
        there = [bus for bus in buses if bus in topology.positions]
        if there:
            _scatter(axes, topology, there, marker=marker, s=size, facecolors="none", edgecolors=BLACK, label=label)
    return {bus for *_, buses in groups for bus in buses}


def _write_names(axes: Any, topology: Topology, marked: set[str]) -> None:
    """Write the names that fit, those of sites, PV systems and loads first."""
    buses = sorted(topology.positions, key=lambda bus: bus not in marked)
    places = np.array([topology.positions[bus] for bus in buses])
    size = np.where(np.ptp(places, axis=0) > 0, np.ptp(places, axis=0), 1.0)
    taken: list[tuple[Floats, Floats]] = []
    for bus, spot in zip(buses, (places - places.min(axis=0)) / size * _MAP_POINTS, strict=True):
        for offset in _NAME_OFFSETS_POINTS:
            low = spot + offset
            high = np.add(low, (_CHARACTER_POINTS * len(bus) + 4, _NAME_POINTS))
            if all(np.any(high < other_low) or np.any(other_high < low) for other_low, other_high in taken):
                taken.append((low, high))
                place = topology.positions[bus]
                axes.annotate(bus, place, xytext=offset, textcoords="offset points", fontsize=_NAME_POINTS)
                break


def _scatter(axes: Any, topology: Topology, buses: Sequence[str], **look: Any) -> Any:
    places = np.array([topology.positions[bus] for bus in buses]).reshape(-1, 2)
    return axes.scatter(places[:, 0], places[:, 1], zorder=2, **look)
