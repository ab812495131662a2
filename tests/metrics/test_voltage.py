"""Measures of voltages, against sums by hand and against plain loops."""

import numpy as np
import pytest
from openg2g.grid.base import BusVoltages, GridState, PhaseVoltages
from openg2g.metrics.voltage import compute_allbus_voltage_stats

from scenario_lib._arrays import Floats
from scenario_lib.metrics.voltage import VoltageMeasures, measure_voltages, penalty_trace

BAND = (0.95, 1.05)
# Steps: inside, under twice, over, both at once, on the limits.
VOLTAGES = np.array(
    [
        [0.97, 1.00, 1.04],
        [0.94, 0.93, 1.00],
        [1.00, 1.00, 1.08],
        [0.90, 1.00, 1.06],
        [0.95, 1.00, 1.05],
    ]
)


def test_measures_by_hand() -> None:
    assert measure_voltages(VOLTAGES, *BAND) == VoltageMeasures(
        integral_pu_s=pytest.approx(0.01 + 0.02 + 0.03 + 0.05 + 0.01),
        violation_time_s=3.0,
        undervoltage_time_s=2.0,
        overvoltage_time_s=2.0,
        worst_v_min_pu=0.90,
        worst_v_max_pu=1.08,
    )


def test_penalty_by_hand() -> None:
    trace = penalty_trace(VOLTAGES, *BAND)
    assert trace.shape == (5,)
    assert trace.tolist() == pytest.approx([0, 1e-4 + 4e-4, 9e-4, 25e-4 + 1e-4, 0], abs=1e-15)
    assert trace[0] == trace[4] == 0.0


def test_times_and_integral_scale_with_the_step() -> None:
    one, half = measure_voltages(VOLTAGES, *BAND), measure_voltages(VOLTAGES, *BAND, dt_s=0.5)
    assert half.integral_pu_s == pytest.approx(one.integral_pu_s / 2)
    assert (half.violation_time_s, half.undervoltage_time_s, half.overvoltage_time_s) == (1.5, 1.0, 1.0)
    assert (half.worst_v_min_pu, half.worst_v_max_pu) == (one.worst_v_min_pu, one.worst_v_max_pu)


def test_without_violation_all_is_zero() -> None:
    calm = measure_voltages(np.full((10, 4), 1.0), *BAND)
    assert calm == VoltageMeasures(0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    assert penalty_trace(np.full((10, 4), 1.0), *BAND).tolist() == [0.0] * 10


def test_other_limits() -> None:
    measures = measure_voltages(VOLTAGES, 0.98, 1.02)
    assert measures.violation_time_s == 5.0
    assert measures.integral_pu_s == pytest.approx(0.03 + 0.09 + 0.06 + 0.12 + 0.06)


def loops(voltages: Floats, low: float, high: float) -> tuple[float, list[float], int, int, int]:
    """The definitions, entry by entry: integral, penalties, seconds with any, with any under, with any over."""
    integral, penalties, any_s, under_s, over_s = 0.0, [], 0, 0, 0
    for row in voltages.tolist():
        under = [max(low - v, 0.0) for v in row]
        over = [max(v - high, 0.0) for v in row]
        integral += sum(under) + sum(over)
        penalties.append(sum(u * u for u in under) + sum(o * o for o in over))
        under_s += any(u > 0 for u in under)
        over_s += any(o > 0 for o in over)
        any_s += any(v > 0 for v in under + over)
    return integral, penalties, any_s, under_s, over_s


@pytest.mark.parametrize("seed", range(10))
def test_measures_against_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    voltages = 1.0 + rng.normal(0, 0.025, size=(200, 1 + seed))
    integral, penalties, any_s, under_s, over_s = loops(voltages, *BAND)
    measures = measure_voltages(voltages, *BAND)
    assert measures.integral_pu_s == pytest.approx(integral, rel=1e-12)
    assert penalty_trace(voltages, *BAND).tolist() == pytest.approx(penalties, rel=1e-12)
    assert (measures.violation_time_s, measures.undervoltage_time_s, measures.overvoltage_time_s) == (
        any_s,
        under_s,
        over_s,
    )
    assert 0 < under_s < 200
    assert max(under_s, over_s) <= any_s <= under_s + over_s
    assert (measures.worst_v_min_pu, measures.worst_v_max_pu) == (voltages.min(), voltages.max())


def test_order_of_bus_phases_and_steps_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    voltages = 1.0 + rng.normal(0, 0.04, size=(50, 6))
    turned = measure_voltages(voltages[::-1, ::-1], *BAND)
    assert turned.integral_pu_s == pytest.approx(measure_voltages(voltages, *BAND).integral_pu_s, rel=1e-13)
    assert turned.violation_time_s == measure_voltages(voltages, *BAND).violation_time_s


@pytest.mark.parametrize("seed", range(20))
def test_measures_are_those_of_openg2g(seed: int) -> None:
    """Its metric goes over buses with three phases each, and leaves those out that a bus does not have (NaN)."""
    rng = np.random.default_rng(seed)
    buses = [f"b{i}" for i in range(int(rng.integers(1, 40)))]
    voltages = rng.normal(rng.choice([0.95, 1.0, 1.05]), 0.03, (int(rng.integers(2, 60)), len(buses), 3))
    there = rng.random((len(buses), 3)) < 0.8
    there[0, 0] = True
    voltages[:, ~there] = np.nan
    states = [
        GridState(
            time_s=float(second),
            voltages=BusVoltages({bus: PhaseVoltages(*row[i].tolist()) for i, bus in enumerate(buses)}),
        )
        for second, row in enumerate(voltages)
    ]
    theirs = compute_allbus_voltage_stats(states, v_min=BAND[0], v_max=BAND[1])
    ours = measure_voltages(voltages[:, there], *BAND)
    assert ours.integral_pu_s == pytest.approx(theirs.integral_violation_pu_s, rel=1e-13, abs=1e-15)
    assert ours.violation_time_s == theirs.violation_time_s
    assert (ours.worst_v_min_pu, ours.worst_v_max_pu) == (theirs.worst_vmin, theirs.worst_vmax)
