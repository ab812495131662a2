"""Voltage arrays in, numbers out: how far and how long a feeder is outside its limits.

A violation is linear in the measures of the integral, as openg2g's voltage metrics have it, and squared in the
penalty trace, which trainers are rewarded against.
"""

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from scenario_lib._arrays import Floats
from scenario_lib.errors import InvalidSettingError


@dataclass(frozen=True, slots=True)
class VoltageMeasures:
    """Measures of one rollout over all counted bus-phases.

    Attributes:
        integral_pu_s: Sum over time and bus-phases of the distance outside the limits (pu s).
        violation_time_s: Seconds with any bus-phase outside.
        undervoltage_time_s, overvoltage_time_s: Seconds with any below, or any above; they may overlap.
        worst_v_min_pu, worst_v_max_pu: Lowest and highest voltage.
    """

    integral_pu_s: float
    violation_time_s: float
    undervoltage_time_s: float
    overvoltage_time_s: float
    worst_v_min_pu: float
    worst_v_max_pu: float


def measure_voltages(voltages_pu: ArrayLike, v_min_pu: float, v_max_pu: float, dt_s: float = 1.0) -> VoltageMeasures:
    """Measures of a rollout.

    Args:
        voltages_pu: Shape (T, N).
        v_min_pu, v_max_pu: Band outside which a bus-phase is in violation.
        dt_s: Length of a step (s).

    Raises:
        InvalidSettingError: Voltages of another shape, none, or limits that leave no band.
    """
    voltages_pu = _voltages(voltages_pu, v_min_pu, v_max_pu)
    under, over = outside_limits(voltages_pu, v_min_pu, v_max_pu)
    outside = np.sum(under + over, axis=1)
    return VoltageMeasures(
        integral_pu_s=float(np.sum(outside * dt_s)),
        violation_time_s=float(np.count_nonzero(outside > 0.0) * dt_s),
        undervoltage_time_s=float(np.count_nonzero(np.any(under > 0.0, axis=1)) * dt_s),
        overvoltage_time_s=float(np.count_nonzero(np.any(over > 0.0, axis=1)) * dt_s),
        worst_v_min_pu=float(np.min(voltages_pu)),
        worst_v_max_pu=float(np.max(voltages_pu)),
    )


def penalty_trace(voltages_pu: ArrayLike, v_min_pu: float, v_max_pu: float) -> Floats:
    """Sum over bus-phases of the squared violation (pu^2) at every step, shape (T,); see `measure_voltages`."""
    voltages_pu = _voltages(voltages_pu, v_min_pu, v_max_pu)
    under, over = outside_limits(voltages_pu, v_min_pu, v_max_pu)
    return np.asarray(np.sum(under**2 + over**2, axis=1))


def outside_limits(voltages_pu: Floats, v_min_pu: float, v_max_pu: float) -> tuple[Floats, Floats]:
    """Distances (pu) of voltages below and above the limits, 0 where they are not; `distances_outside` for kernels."""
    return np.maximum(v_min_pu - voltages_pu, 0.0), np.maximum(voltages_pu - v_max_pu, 0.0)


def _voltages(voltages_pu: ArrayLike, v_min_pu: float, v_max_pu: float) -> Floats:
    try:
        voltages = np.asarray(voltages_pu, float)
    except (TypeError, ValueError):
        raise InvalidSettingError(
            f"voltages_pu is of type {type(voltages_pu).__name__}; expected numbers of shape (seconds, bus-phases), "
            f"such as a rollout's voltages_pu"
        ) from None
    if voltages.ndim != 2 or not voltages.size:
        raise InvalidSettingError(f"voltages_pu has shape {voltages.shape}; expected (seconds, bus-phases), none of 0")
    for name, limit in (("v_min_pu", v_min_pu), ("v_max_pu", v_max_pu)):
        if not isinstance(limit, Real):
            raise InvalidSettingError(f"{name} is {limit!r}; expected a number")
    if not v_min_pu < v_max_pu:
        raise InvalidSettingError(f"v_max_pu is {v_max_pu!r}; expected more than v_min_pu ({v_min_pu!r})")
    return voltages
