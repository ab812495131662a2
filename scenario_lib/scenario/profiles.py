"""The curves that profiles are made of, vectorised in time (s).

Shapes of sampled profiles: what fraction of its peak a PV system or a load has over the hour.

Each shape is one frozen value. Its field names are those that libraries store; `fraction` gives the fraction of the
peak at times in seconds, before clouds and noise.

Profiles of PV systems and loads: kW per phase as a function of time, vectorised.

Three kinds: analytic (the default, distinct by index), sampled (a drawn shape with clouds and noise), and a series
of the user's own. Only analytic profiles and series are shifted and warped in time.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from scenario_lib._arrays import Floats
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.feeders.sites import PowerSeries

# (amplitude, period in s, factor on the phase): incommensurate periods, so that the sum does not visibly repeat.
_FLUCTUATION = ((0.06, 173.0, 1.0), (0.05, 97.3, 2.3), (0.04, 251.7, 0.7), (0.03, 41.9, 4.1), (0.02, 317.3, 1.9))


def bump(t: ArrayLike, centre_s: float, half_width_s: float) -> Floats:
    """(1 - x^2)^2 with x = |t - centre| / half width, and 0 where x >= 1."""
    x = np.abs(np.asarray(t, float) - centre_s) / half_width_s
    inside: Floats = np.where(x < 1.0, (1.0 - x * x) ** 2, 0.0)
    return inside


def smoothstep(t: ArrayLike, start_s: float, end_s: float) -> Floats:
    """x^2 (3 - 2x) with x = (t - start) / (end - start) clipped to [0, 1]; a step at start if end <= start."""
    times = np.asarray(t, float)
    if end_s <= start_s:
        return np.where(times >= start_s, 1.0, 0.0)
    x = np.clip((times - start_s) / (end_s - start_s), 0.0, 1.0)
    return np.asarray(x * x * (3.0 - 2.0 * x))


def fluctuation(t: ArrayLike, phase: float) -> Floats:
    """A sum of five sines around 1, with amplitudes of 2 to 6 %."""
    times = np.asarray(t, float)
    total = np.ones_like(times)
    for amplitude, period_s, factor in _FLUCTUATION:
        total = total + amplitude * np.sin(2 * np.pi * times / period_s + factor * phase)
    return total


class Shape(Protocol):
    """What every shape offers."""

    shape: ClassVar[str]

    def fraction(self, t: Floats) -> Floats:
        """Fraction of the peak at times t (s)."""
        ...


def _hour_fraction(t: Floats) -> Floats:
    return np.clip(t / DURATION_S, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class FlatPV:
    shape: ClassVar[str] = "flat"
    baseline: float

    def fraction(self, t: Floats) -> Floats:
        return np.full_like(t, self.baseline, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RisingFallingPV:
    shape: ClassVar[str] = "rising_falling"
    low_baseline: float
    high_baseline: float
    peak_t: float
    half_width: float

    def fraction(self, t: Floats) -> Floats:
        rise = self.high_baseline - self.low_baseline
        return self.low_baseline + rise * bump(t, self.peak_t, self.half_width)


@dataclass(frozen=True, slots=True)
class MorningRampPV:
    shape: ClassVar[str] = "morning_ramp"
    low_baseline: float
    high_baseline: float
    ramp_start: float
    ramp_end: float

    def fraction(self, t: Floats) -> Floats:
        rise = self.high_baseline - self.low_baseline
        return self.low_baseline + rise * smoothstep(t, self.ramp_start, self.ramp_end)


@dataclass(frozen=True, slots=True)
class AfternoonDeclinePV:
    shape: ClassVar[str] = "afternoon_decline"
    low_baseline: float
    high_baseline: float
    ramp_start: float
    ramp_end: float

    def fraction(self, t: Floats) -> Floats:
        fall = self.high_baseline - self.low_baseline
        return self.high_baseline - fall * smoothstep(t, self.ramp_start, self.ramp_end)


@dataclass(frozen=True, slots=True)
class MiddayDipPV:
    shape: ClassVar[str] = "midday_dip"
    high_baseline: float
    dip_t: float
    dip_half_width: float
    dip_depth: float

    def fraction(self, t: Floats) -> Floats:
        return self.high_baseline - self.dip_depth * bump(t, self.dip_t, self.dip_half_width)


@dataclass(frozen=True, slots=True)
class FlatLoad:
    shape: ClassVar[str] = "flat"
    level: float

    def fraction(self, t: Floats) -> Floats:
        return np.full_like(t, self.level, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class IncreasingLoad:
    shape: ClassVar[str] = "increasing"
    lo: float
    hi: float

    def fraction(self, t: Floats) -> Floats:
        return self.lo + (self.hi - self.lo) * _hour_fraction(t)


@dataclass(frozen=True, slots=True)
class DecreasingLoad:
    shape: ClassVar[str] = "decreasing"
    lo: float
    hi: float

    def fraction(self, t: Floats) -> Floats:
        return self.hi - (self.hi - self.lo) * _hour_fraction(t)


@dataclass(frozen=True, slots=True)
class PeakedLoad:
    shape: ClassVar[str] = "peaked"
    peak_t: float
    peak_w: float
    baseline: float
    amp: float

    def fraction(self, t: Floats) -> Floats:
        return self.baseline + self.amp * bump(t, self.peak_t, self.peak_w)


@dataclass(frozen=True, slots=True)
class ValleyLoad:
    shape: ClassVar[str] = "valley"
    valley_t: float
    valley_w: float
    high: float
    depth: float

    def fraction(self, t: Floats) -> Floats:
        return self.high - self.depth * bump(t, self.valley_t, self.valley_w)


# The order is the order of the default choices, which a seed's draw depends on.
PV_SHAPES: dict[str, type] = {
    kind.shape: kind for kind in (FlatPV, RisingFallingPV, MorningRampPV, AfternoonDeclinePV, MiddayDipPV)
}
LOAD_SHAPES: dict[str, type] = {
    kind.shape: kind for kind in (FlatLoad, IncreasingLoad, DecreasingLoad, PeakedLoad, ValleyLoad)
}


# Relative size of the drawn noise: `noise_amp` is stated for a fluctuation of this amplitude.
_FLUCTUATION_AMPLITUDE = 0.20
_SAMPLED_PV_FLOOR = 0.15
_ANALYTIC_CLOUD_FLOOR = 0.05


class Profile(Protocol):
    """What every profile offers."""

    kind: ClassVar[str]
    follows_time_shift: ClassVar[bool]

    def kw_per_phase(self, t: Floats, peak_kw_per_phase: float) -> Floats:
        """Power at times t (s), never negative."""
        ...

    def params(self) -> dict[str, Any] | None:
        """Parameters as libraries store them; None if the kind says it all."""
        ...


@dataclass(frozen=True, slots=True)
class AnalyticPV:
    """The default PV profile; each index has its own envelope, clouds and noise phase."""

    kind: ClassVar[str] = "default"
    follows_time_shift: ClassVar[bool] = True
    index: int

    def kw_per_phase(self, t: Floats, peak_kw_per_phase: float) -> Floats:
        if self.index == 0:
            envelope = 0.85 - 0.30 * (t / DURATION_S)
            cloud, phase = 1 - 0.55 * bump(t, 600, 120) - 0.40 * bump(t, 2100, 180), 0.3
        elif self.index == 1:
            envelope = 0.55 + 0.40 * bump(t, 1200, 900)
            cloud, phase = 1 - 0.60 * bump(t, 1680, 240) - 0.25 * bump(t, 2400, 150), 2.1
        else:
            envelope = 0.30 + 0.65 * np.minimum(1.0, t / 900.0)
            cloud, phase = 1 - 0.70 * bump(t, 2700, 300) - 0.30 * bump(t, 1200, 100), 2.0 + self.index * 3.7
        shaded = peak_kw_per_phase * envelope * np.maximum(cloud, _ANALYTIC_CLOUD_FLOOR)
        return np.maximum(0.0, shaded * fluctuation(t, phase))

    def params(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class AnalyticLoad:
    """The default load profile; indices 0 to 3 have their own bumps, all later ones share a shape."""

    kind: ClassVar[str] = "default"
    follows_time_shift: ClassVar[bool] = True
    index: int

    def kw_per_phase(self, t: Floats, peak_kw_per_phase: float) -> Floats:
        ripple = 1.0 + 0.06 * np.sin(2 * np.pi * t / (130.0 + self.index * 37) + self.index * 1.4)
        return np.maximum(0.0, peak_kw_per_phase * self._base(t) * ripple)

    def _base(self, t: Floats) -> Floats:
        if self.index == 0:
            return 0.15 + 0.85 * bump(t, 2280, 1400) + 0.20 * bump(t, 2280, 180)
        if self.index == 1:
            return 0.10 + 0.50 * bump(t, 1500, 600) + 0.80 * bump(t, 2880, 500)
        if self.index == 2:
            return 0.80 - 0.55 * bump(t, 1800, 1200) + 0.70 * bump(t, 2520, 400)
        if self.index == 3:
            return 0.10 + 0.90 * bump(t, 3120, 800)
        return 0.10 + 0.60 * bump(t, 1080, 300) + 0.75 * bump(t, 2100, 350) + 0.90 * bump(t, 3300, 300)

    def params(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SeriesProfile:
    """A series of the user's own, times the drawn scale; its values already are kW per phase."""

    kind: ClassVar[str] = "series"
    follows_time_shift: ClassVar[bool] = True
    series: PowerSeries
    scale: float

    def kw_per_phase(self, t: Floats, peak_kw_per_phase: float) -> Floats:  # noqa: ARG002 - the series has its own peak
        return np.asarray(np.interp(t, self.series.time_s, self.series.kw_per_phase)) * self.scale

    def params(self) -> dict[str, Any]:
        return {
            "time_s": [float(value) for value in self.series.time_s],
            "kw_per_phase": [float(value) for value in self.series.kw_per_phase],
            "scale": self.scale,
        }


@dataclass(frozen=True, slots=True)
class Cloud:
    """A dip of a sampled PV profile: centre (s), half width (s), depth (fraction of the peak)."""

    centre_s: float
    half_width_s: float
    depth: float


@dataclass(frozen=True, slots=True)
class Noise:
    """The fluctuation on a sampled profile: its relative amplitude and its phase."""

    amp: float
    seed: float

    def factor(self, t: Floats) -> Floats:
        return 1.0 + self.amp / _FLUCTUATION_AMPLITUDE * (fluctuation(t, self.seed) - 1.0)


@dataclass(frozen=True, slots=True)
class SampledPV:
    """A drawn PV profile: a shape less its clouds, with a floor, times noise.

    The kind's name is openg2g's; it stands for a sampled PV profile of whatever shape.
    """

    kind: ClassVar[str] = "random_flat"
    follows_time_shift: ClassVar[bool] = False
    shape: Shape
    clouds: tuple[Cloud, ...]
    noise: Noise

    def kw_per_phase(self, t: Floats, peak_kw_per_phase: float) -> Floats:
        level = self.shape.fraction(t)
        for cloud in self.clouds:
            level = level - cloud.depth * bump(t, cloud.centre_s, cloud.half_width_s)
        level = np.maximum(level, _SAMPLED_PV_FLOOR) * self.noise.factor(t)
        return peak_kw_per_phase * np.maximum(level, 0.0)

    def params(self) -> dict[str, Any]:
        clouds = [[cloud.centre_s, cloud.half_width_s, cloud.depth] for cloud in self.clouds]
        return {"clouds": clouds, **_shape_params(self.shape), **_noise_params(self.noise)}


@dataclass(frozen=True, slots=True)
class SampledLoad:
    """A drawn load profile: a shape, floored at zero, times noise."""

    kind: ClassVar[str] = "random_shape"
    follows_time_shift: ClassVar[bool] = False
    shape: Shape
    noise: Noise

    def kw_per_phase(self, t: Floats, peak_kw_per_phase: float) -> Floats:
        level = np.maximum(self.shape.fraction(t), 0.0) * self.noise.factor(t)
        return peak_kw_per_phase * np.maximum(level, 0.0)

    def params(self) -> dict[str, Any]:
        return {**_shape_params(self.shape), **_noise_params(self.noise)}


def _shape_params(shape: Shape) -> dict[str, Any]:
    return {"shape": shape.shape, **asdict(shape)}  # type: ignore[call-overload]


def _noise_params(noise: Noise) -> dict[str, float]:
    return {"noise_amp": noise.amp, "noise_seed": noise.seed}
