"""Panels over the hour that several figures share: voltage envelope, batch sizes, stacked power."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.feeders.feeder import Limits
from scenario_lib.plotting.style import BLACK, GREY, Look, series_look
from scenario_lib.scenario.curves import Array

_MOST_POINTS = 450
"""Points along a curve: about one a pixel, whatever the number of seconds."""

_APART_OCTAVES = 0.08
"""Distance of batch lines that would hide each other."""

HATCHES = ("", "", "///", "", "--", "", "\\\\\\", "||")
"""Hatches of stacked layers, so that neighbours differ by more than colour; lines only, dots make large files."""


def bins(seconds: int) -> NDArray[np.int64]:
    """First second of each bin that a curve of so many seconds is drawn in."""
    return np.arange(0, seconds, max(1, -(-seconds // _MOST_POINTS)), dtype=np.int64)


def envelope(voltages_pu: Array) -> tuple[Array, Array, Array]:
    """Times (s), lowest and highest voltage (pu) of voltages of shape (T, N); no extreme is lost by the bins."""
    starts = bins(len(voltages_pu))
    lowest = np.minimum.reduceat(voltages_pu.min(axis=1), starts)
    highest = np.maximum.reduceat(voltages_pu.max(axis=1), starts)
    return starts.astype(float), lowest, highest


def binned_mean(values: Array) -> Array:
    """Mean of each bin of `bins`, along the first axis."""
    starts = bins(len(values))
    counts = np.diff(np.append(starts, len(values)))
    return np.asarray(np.add.reduceat(values, starts, axis=0) / counts.reshape(-1, *[1] * (values.ndim - 1)))


def draw_envelope(axes: Any, curves: tuple[Array, Array, Array], limits: Limits, look: Look, label: str) -> None:
    """Lowest and highest voltage as lines, a faint band between them, and what lies outside the limits filled."""
    times_s, lowest, highest = curves
    axes.fill_between(times_s, lowest, highest, color=look.colour, alpha=0.08, linewidth=0)
    for curve, limit, outside in (
        (lowest, limits.v_min_pu, lowest < limits.v_min_pu),
        (highest, limits.v_max_pu, highest > limits.v_max_pu),
    ):
        axes.fill_between(times_s, curve, limit, where=outside, color=look.colour, alpha=0.35, linewidth=0)
    axes.plot(times_s, lowest, color=look.colour, linestyle=look.line, linewidth=1.1, label=label)
    axes.plot(times_s, highest, color=look.colour, linestyle=look.line, linewidth=1.1)


def draw_limits(panels: Sequence[Any], limits: Limits) -> None:
    """The band that voltages should stay in; all panels get one scale, which shows both limits and all curves."""
    margin = 0.05 * (limits.v_max_pu - limits.v_min_pu)
    ends = [axes.get_ylim() for axes in panels]
    low = min(limits.v_min_pu - margin, *(end[0] for end in ends))
    high = max(limits.v_max_pu + margin, *(end[1] for end in ends))
    for axes in panels:
        for limit in (limits.v_min_pu, limits.v_max_pu):
            axes.axhline(limit, color=BLACK, linewidth=1.0, linestyle=(0, (1, 1.5)))
        axes.set_ylim(low, high)


def mark_window(axes: Any, window_s: tuple[float, float] | None) -> None:
    """Shade the control window, if there is one."""
    if window_s is not None:
        axes.axvspan(*window_s, color=GREY, alpha=0.10, linewidth=0)


def draw_batches(axes: Any, times_s: Any, batches: Mapping[str, Any]) -> None:
    """Batch sizes over time as steps, on a scale of powers of two; lines are moved apart a little, to be seen.

    Args:
        times_s: Shape (T,).
        batches: Label of each model to its batch sizes, shape (T,).
    """
    for position, (label, sizes) in enumerate(batches.items()):
        look = series_look(position)
        apart = 2.0 ** (_APART_OCTAVES * (position - (len(batches) - 1) / 2))
        axes.step(times_s, np.asarray(sizes) * apart, where="post", color=look.colour, linestyle=look.line, label=label)
    axes.set_yscale("log", base=2)
    used = sorted({int(size) for sizes in batches.values() for size in np.unique(sizes)})
    if used:
        levels = 2 ** np.arange(np.floor(np.log2(used[0])), np.ceil(np.log2(used[-1])) + 1)
        axes.set_yticks(levels, [f"{level:.0f}" for level in levels])
        axes.set_ylim(levels[0] / 1.3, levels[-1] * 1.3)
    axes.minorticks_off()
    axes.set_ylabel("batch size")


def draw_stack(axes: Any, times_s: Any, layers: Mapping[str, tuple[Array, Look, str]]) -> None:
    """Layers on top of each other.

    Args:
        layers: Label to values of shape (T,), look and hatch, from the lowest up.
    """
    floor = np.zeros(len(times_s))
    for label, (values, look, hatch) in layers.items():
        axes.fill_between(
            times_s,
            floor,
            floor + values,
            facecolor=look.colour,
            alpha=0.75,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.4,
            label=label,
        )
        floor = floor + values
    axes.set_ylim(bottom=0.0)


def hour_axis(axes: Any, seconds: int, tick_s: int, label: bool) -> None:
    """A time axis in seconds, in whole parts of the hour where it is one; only the lowest panel needs a label."""
    axes.set_xlim(0, seconds)
    if seconds == DURATION_S:
        axes.set_xticks(range(0, seconds + 1, tick_s))
    if label:
        axes.set_xlabel("time (s)")
