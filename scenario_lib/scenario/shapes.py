"""Shapes of sampled profiles: what fraction of its peak a PV system or a load has over the hour.

Each shape is one frozen value. Its field names are those that libraries store; `fraction` gives the fraction of the
peak at times in seconds, before clouds and noise.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.scenario.curves import Array, bump, smoothstep


class Shape(Protocol):
    """What every shape offers."""

    shape: ClassVar[str]

    def fraction(self, t: Array) -> Array:
        """Fraction of the peak at times t (s)."""
        ...


def _hour_fraction(t: Array) -> Array:
    return np.clip(t / DURATION_S, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class FlatPV:
    shape: ClassVar[str] = "flat"
    baseline: float

    def fraction(self, t: Array) -> Array:
        return np.full_like(t, self.baseline, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RisingFallingPV:
    shape: ClassVar[str] = "rising_falling"
    low_baseline: float
    high_baseline: float
    peak_t: float
    half_width: float

    def fraction(self, t: Array) -> Array:
        rise = self.high_baseline - self.low_baseline
        return self.low_baseline + rise * bump(t, self.peak_t, self.half_width)


@dataclass(frozen=True, slots=True)
class MorningRampPV:
    shape: ClassVar[str] = "morning_ramp"
    low_baseline: float
    high_baseline: float
    ramp_start: float
    ramp_end: float

    def fraction(self, t: Array) -> Array:
        rise = self.high_baseline - self.low_baseline
        return self.low_baseline + rise * smoothstep(t, self.ramp_start, self.ramp_end)


@dataclass(frozen=True, slots=True)
class AfternoonDeclinePV:
    shape: ClassVar[str] = "afternoon_decline"
    low_baseline: float
    high_baseline: float
    ramp_start: float
    ramp_end: float

    def fraction(self, t: Array) -> Array:
        fall = self.high_baseline - self.low_baseline
        return self.high_baseline - fall * smoothstep(t, self.ramp_start, self.ramp_end)


@dataclass(frozen=True, slots=True)
class MiddayDipPV:
    shape: ClassVar[str] = "midday_dip"
    high_baseline: float
    dip_t: float
    dip_half_width: float
    dip_depth: float

    def fraction(self, t: Array) -> Array:
        return self.high_baseline - self.dip_depth * bump(t, self.dip_t, self.dip_half_width)


@dataclass(frozen=True, slots=True)
class FlatLoad:
    shape: ClassVar[str] = "flat"
    level: float

    def fraction(self, t: Array) -> Array:
        return np.full_like(t, self.level, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class IncreasingLoad:
    shape: ClassVar[str] = "increasing"
    lo: float
    hi: float

    def fraction(self, t: Array) -> Array:
        return self.lo + (self.hi - self.lo) * _hour_fraction(t)


@dataclass(frozen=True, slots=True)
class DecreasingLoad:
    shape: ClassVar[str] = "decreasing"
    lo: float
    hi: float

    def fraction(self, t: Array) -> Array:
        return self.hi - (self.hi - self.lo) * _hour_fraction(t)


@dataclass(frozen=True, slots=True)
class PeakedLoad:
    shape: ClassVar[str] = "peaked"
    peak_t: float
    peak_w: float
    baseline: float
    amp: float

    def fraction(self, t: Array) -> Array:
        return self.baseline + self.amp * bump(t, self.peak_t, self.peak_w)


@dataclass(frozen=True, slots=True)
class ValleyLoad:
    shape: ClassVar[str] = "valley"
    valley_t: float
    valley_w: float
    high: float
    depth: float

    def fraction(self, t: Array) -> Array:
        return self.high - self.depth * bump(t, self.valley_t, self.valley_w)


# The order is the order of the default choices, which a seed's draw depends on.
PV_SHAPES: dict[str, type] = {
    kind.shape: kind for kind in (FlatPV, RisingFallingPV, MorningRampPV, AfternoonDeclinePV, MiddayDipPV)
}
LOAD_SHAPES: dict[str, type] = {
    kind.shape: kind for kind in (FlatLoad, IncreasingLoad, DecreasingLoad, PeakedLoad, ValleyLoad)
}
