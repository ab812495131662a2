"""Draws of sampled load and PV profiles: steps 4 and 5 of a scenario's draws.

The order of draws within each shape is part of what a seed means, hence one row of ranges per field.
"""

from typing import Any

from numpy.random import Generator

from scenario_lib.scenario.profiles import Cloud, Noise, SampledLoad, SampledPV
from scenario_lib.scenario.settings import RandomizationSettings, Range
from scenario_lib.scenario.shapes import LOAD_SHAPES, PV_SHAPES

_NOISE_AMP = Range(0.02, 0.06)
_NOISE_SEED = Range(0, 10)
_CLOUD_CENTRE_S = Range(120, 3480)

_LOAD_DRAWS: dict[str, tuple[Range, ...]] = {
    "flat": (Range(0.5, 0.85),),
    "increasing": (Range(0.10, 0.30), Range(0.65, 0.95)),
    "decreasing": (Range(0.10, 0.30), Range(0.65, 0.95)),
    "peaked": (Range(800, 2800), Range(800, 1800), Range(0.10, 0.30), Range(0.55, 0.90)),
    "valley": (Range(800, 2800), Range(800, 1500), Range(0.70, 0.90), Range(0.40, 0.70)),
}

# After the two levels of the shapes that have them.
_PV_DRAWS: dict[str, tuple[Range, ...]] = {
    "rising_falling": (Range(900, 2700), Range(800, 1500)),
    "morning_ramp": (Range(0, 400), Range(800, 1800)),
    "afternoon_decline": (Range(1800, 2800), Range(3200, 3600)),
    "midday_dip": (Range(0.30, 1.0), Range(1200, 2400), Range(500, 1000), Range(0.20, 0.55)),
}
_LOW_LEVEL = {
    "rising_falling": Range(0.15, 0.55),
    "morning_ramp": Range(0.15, 0.45),
    "afternoon_decline": Range(0.15, 0.45),
}
_LEAST_RISE = 0.20


def _uniform(rng: Generator, ranges: tuple[Range, ...]) -> list[float]:
    return [float(rng.uniform(*ends)) for ends in ranges]


def _draw_noise(rng: Generator) -> Noise:
    return Noise(amp=float(rng.uniform(*_NOISE_AMP)), seed=float(rng.uniform(*_NOISE_SEED)))


def draw_load_profile(settings: RandomizationSettings, rng: Generator) -> SampledLoad:
    """One load profile, for all loads of a scenario."""
    name = str(rng.choice(list(settings.tvl_shape_choices)))
    shape: Any = LOAD_SHAPES[name](*_uniform(rng, _LOAD_DRAWS[name]))
    return SampledLoad(shape=shape, noise=_draw_noise(rng))


def draw_pv_profile(settings: RandomizationSettings, rng: Generator) -> SampledPV:
    """The profile of one PV system."""
    count = int(rng.integers(0, settings.pv_cloud_count_max + 1))
    clouds = tuple(_draw_cloud(settings, rng) for _ in range(count))
    name = str(rng.choice(list(settings.pv_shape_choices)))
    noise = _draw_noise(rng)
    shape: Any = PV_SHAPES[name](*_draw_pv_shape(name, settings, rng))
    return SampledPV(shape=shape, clouds=clouds, noise=noise)


def _draw_cloud(settings: RandomizationSettings, rng: Generator) -> Cloud:
    return Cloud(*_uniform(rng, (_CLOUD_CENTRE_S, settings.pv_cloud_width, settings.pv_cloud_depth)))


def _draw_pv_shape(name: str, settings: RandomizationSettings, rng: Generator) -> list[float]:
    if name == "flat":
        return _uniform(rng, (settings.pv_baseline,))
    levels: list[float] = []
    if name in _LOW_LEVEL:
        low = float(rng.uniform(*_LOW_LEVEL[name]))
        levels = [low, float(rng.uniform(low + _LEAST_RISE, 1.0))]
    return levels + _uniform(rng, _PV_DRAWS[name])
