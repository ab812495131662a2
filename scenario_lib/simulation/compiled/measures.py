"""Measures of a rollout in one pass: the numbers of `metrics.voltage`, several times faster; sums agree to rounding."""

import numpy as np
from numpy.typing import NDArray

from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.simulation.compiled.compile_once import compiling_once
from scenario_lib.simulation.compiled.kernels import kernel

Floats = NDArray[np.float64]


def measure_rollout(
    voltages_pu: Floats, v_min_pu: float, v_max_pu: float, dt_s: float = 1.0
) -> tuple[VoltageMeasures, Floats]:
    """Measures and penalty trace (pu^2, shape (T,)) of voltages of shape (T, N); see `metrics.voltage`."""
    under, over, penalty = (np.zeros(len(voltages_pu)) for _ in range(3))
    with compiling_once("measures"):
        _outside(voltages_pu, v_min_pu, v_max_pu, under, over, penalty)
    measures = VoltageMeasures(
        integral_pu_s=float(np.sum((under + over) * dt_s)),
        violation_time_s=float(np.count_nonzero((under > 0) | (over > 0)) * dt_s),
        undervoltage_time_s=float(np.count_nonzero(under > 0) * dt_s),
        overvoltage_time_s=float(np.count_nonzero(over > 0) * dt_s),
        worst_v_min_pu=float(np.min(voltages_pu)),
        worst_v_max_pu=float(np.max(voltages_pu)),
    )
    return measures, penalty


@kernel
def _outside(voltages_pu, v_min, v_max, under, over, penalty):  # type: ignore[no-untyped-def]
    """At every second, the sums of distances below and above the limits, and of their squares."""
    for t in range(voltages_pu.shape[0]):
        below, above, squares = 0.0, 0.0, 0.0
        for i in range(voltages_pu.shape[1]):
            voltage = voltages_pu[t, i]
            if voltage < v_min:
                distance = v_min - voltage
                below += distance
                squares += distance * distance
            elif voltage > v_max:
                distance = voltage - v_max
                above += distance
                squares += distance * distance
        under[t], over[t], penalty[t] = below, above, squares
