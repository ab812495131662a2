"""Draws of inference ramps and of each site's seed: step 2 of a scenario's draws.

Draws of sampled load and PV profiles: steps 4 and 5 of a scenario's draws.

The order of draws within each shape is part of what a seed means, hence one row of ranges per field.

From (experiment, settings, seed) to a scenario.

The order of draws is what a seed means: libraries name scenarios by seed, so a draw that moves breaks every library.
Steps: overlay, ramps with site seeds, scales with shape of time, load profile, PV profiles, initial batch sizes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from scenario_lib._values import as_whole_number, built_as, require_count
from scenario_lib.feeders.experiment import DURATION_S, INITIAL_BATCH_CHOICES, Experiment, TrainingJob
from scenario_lib.feeders.experiment_file import as_experiment
from scenario_lib.feeders.sites import BusPower, ModelDeployment, Ramp, Site
from scenario_lib.scenario.model import Overlay, Scenario, ScenarioParams, ScenarioPower
from scenario_lib.scenario.profiles import (
    LOAD_SHAPES,
    PV_SHAPES,
    AnalyticLoad,
    AnalyticPV,
    Cloud,
    Noise,
    Profile,
    SampledLoad,
    SampledPV,
    SeriesProfile,
)
from scenario_lib.scenario.settings import RandomizationSettings, Range

_LEAST_RAMP_UP = 1.05
_SITE_SEEDS = 10_000

Whole = Callable[[float], int]
"""How a fraction of the replicas becomes a count: cut off (narrow) or rounded half to even (broad)."""


@dataclass(frozen=True, slots=True)
class _RampWindow:
    """One drawn ramp: all models of a site go to a fraction of their initial replicas over [start_s, end_s]."""

    fraction: float
    start_s: float
    end_s: float


def draw_sites(
    experiment: Experiment, settings: RandomizationSettings, job: TrainingJob | None, rng: Generator
) -> tuple[Site, ...]:
    """The experiment's sites with drawn ramps and seeds, or as they are if ramps are not randomised."""
    if not settings.randomize_ramps:
        return experiment.sites
    if not settings.randomization_profile:
        return _draw_narrow(experiment.sites, settings, rng)
    zones = _start_zones(settings, job)
    sites = []
    for position, site in enumerate(experiment.sites):
        taken_gpus = job.n_gpus if job is not None and position == 0 else 0
        largest = _largest_fraction(experiment, site, taken_gpus, settings)
        windows = _draw_windows(settings, zones, largest, rng)
        sites.append(_with_ramps(site, windows, round, rng))
    return tuple(sites)


def _draw_narrow(sites: tuple[Site, ...], settings: RandomizationSettings, rng: Generator) -> tuple[Site, ...]:
    fraction = float(rng.uniform(*settings.ramp_frac))
    start_s = float(rng.uniform(*settings.ramp_start))
    duration_s = float(rng.uniform(*settings.ramp_dur))
    window = _RampWindow(fraction, start_s, start_s + duration_s)
    return tuple(_with_ramps(site, [window], int, rng) for site in sites)


def _with_ramps(site: Site, windows: Sequence[_RampWindow], whole: Whole, rng: Generator) -> Site:
    models = tuple(_ramped(model, windows, whole) for model in site.models)
    return replace(site, models=models, seed=int(rng.integers(0, _SITE_SEEDS)))


def _ramped(model: ModelDeployment, windows: Sequence[_RampWindow], whole: Whole) -> ModelDeployment:
    ramps = [Ramp(max(1, whole(window.fraction * model.replicas)), window.start_s, window.end_s) for window in windows]
    return replace(model, ramps=tuple(ramps))


def _start_zones(settings: RandomizationSettings, job: TrainingJob | None) -> list[Range]:
    """Where ramps may start: before the training job, so that they end before it, or after it."""
    lowest, highest = settings.ramp_start
    if job is None:
        return [Range(lowest, highest)]
    zones = []
    latest = job.t_start_s - settings.ramp_dur.high
    if lowest < latest:
        zones.append(Range(lowest, min(latest, highest)))
    if job.t_end_s < highest:
        zones.append(Range(max(job.t_end_s, lowest), highest))
    return zones or [Range(lowest, highest)]


def _largest_fraction(experiment: Experiment, site: Site, taken_gpus: int, settings: RandomizationSettings) -> float:
    """Largest factor on the initial replicas for which the site has GPUs, capped by the settings."""
    free = max(0, site.total_gpu_capacity - taken_gpus)
    used = sum(model.replicas * experiment.spec(model.label).gpus_per_replica for model in site.models)
    largest = free / used if used > 0 else 1.0
    return min(largest, settings.ramp_up_frac.high)


def _draw_windows(
    settings: RandomizationSettings, zones: list[Range], largest: float, rng: Generator
) -> list[_RampWindow]:
    count = int(rng.choice(list(settings.n_ramps_per_site_choices)))
    windows: list[_RampWindow] = []
    for zone, share in zip(zones, _shares(count, zones), strict=True):
        width_s = (zone.high - zone.low) / share if share else 0.0
        # A ramp does not fit into bands narrower than the shortest: all of them are skipped, without a draw.
        for band in _bands(zone, share, width_s) if width_s >= settings.ramp_dur.low else ():
            window = _draw_window(settings, band, min(settings.ramp_dur.high, width_s), largest, rng)
            windows += _after(windows[-1:], window)
    return windows


def _after(earlier: Sequence[_RampWindow], window: _RampWindow) -> list[_RampWindow]:
    """The window, or what is left of it: a draw near the end of a narrow band may reach into the next band.

    Ramps may touch, not overlap.
    """
    if not earlier or earlier[0].end_s <= window.start_s:
        return [window]
    return [replace(window, start_s=earlier[0].end_s)] if earlier[0].end_s < window.end_s else []


def _shares(count: int, zones: list[Range]) -> list[int]:
    """`count` ramps shared out by width, the rest to the widest zone."""
    widths = [zone.high - zone.low for zone in zones]
    total = sum(widths)
    shares = [int(count * width / total) if total > 0 else 0 for width in widths]
    shares[widths.index(max(widths))] += count - sum(shares)
    return shares


def _bands(zone: Range, count: int, width_s: float) -> list[Range]:
    return [Range(zone.low + j * width_s, zone.low + (j + 1) * width_s) for j in range(count)]


def _draw_window(
    settings: RandomizationSettings, band: Range, longest_s: float, largest: float, rng: Generator
) -> _RampWindow:
    duration_s = float(rng.uniform(settings.ramp_dur.low, longest_s))
    start_s = float(rng.uniform(band.low, max(band.low + 1.0, band.high - duration_s)))
    least_up = max(_LEAST_RAMP_UP, settings.ramp_up_frac.low)
    if largest >= least_up and rng.random() < settings.ramp_up_prob:
        fraction = float(rng.uniform(least_up, max(least_up + 1e-3, largest)))
    else:
        fraction = float(rng.uniform(*settings.ramp_down_frac))
    return _RampWindow(fraction, start_s, start_s + duration_s)


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


def _draw_load_profile(settings: RandomizationSettings, rng: Generator) -> SampledLoad:
    """One load profile, for all loads of a scenario."""
    name = str(rng.choice(list(settings.tvl_shape_choices)))
    shape: Any = LOAD_SHAPES[name](*_uniform(rng, _LOAD_DRAWS[name]))
    return SampledLoad(shape=shape, noise=_draw_noise(rng))


def _draw_pv_profile(settings: RandomizationSettings, rng: Generator) -> SampledPV:
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


_OVERLAY_DURATION_S = Range(500, 1200)
_NARROW_OVERLAY_START_S = Range(500, 1500)
_NARROW_GPU_FRACTION = Range(0.85, 1.0)
_NARROW_SCALE = Range(0.5, 2.0)
_LARGEST_DRAWN_SEED = 2**128 - 1  # the generator takes any; libraries hold 64 bits


@dataclass(frozen=True, slots=True)
class _TimeShape:
    """How the profiles of one kind (PV or loads) are scaled and moved in time."""

    scale: float
    t_shift_s: float = 0.0
    warp: float = 1.0


def randomize_scenario(
    seed: int, *, experiment: Experiment | str | Path, settings: RandomizationSettings | Mapping[str, Any] | None = None
) -> Scenario:
    """The scenario that `seed` means on this experiment under these settings.

    Args:
        seed: At least 0; the only source of randomness.
        experiment: What is varied, or what `load_experiment` takes; its training job, if any, is the base of the
            overlay.
        settings: How it is varied, as such or as a mapping of its fields; None means the defaults.

    Raises:
        InvalidSettingError: The seed is not a whole number of at least 0, or an argument is of another type.
    """
    seed, experiment = as_whole_number("seed", seed), as_experiment("experiment", experiment)
    require_count("seed", seed, 0, _LARGEST_DRAWN_SEED)
    settings = built_as(RandomizationSettings)("settings", {} if settings is None else settings)
    rng = np.random.default_rng(seed)
    overlay = None if experiment.overlay is None else _draw_overlay(experiment.overlay, settings, rng)
    sites = draw_sites(experiment, settings, None if overlay is None else overlay.job, rng)
    pv_time, load_time = _draw_time_shapes(settings, rng)
    broad = settings.randomization_profile
    load_profile = _draw_load_profile(settings, rng) if broad and settings.randomize_tvl_profile else None
    pv_profiles = [
        _draw_pv_profile(settings, rng) if broad and settings.randomize_pv_profile else None
        for _ in experiment.pv_systems
    ]
    sites = tuple(_with_initial_batches(site, rng) for site in sites)
    return Scenario(
        seed=seed,
        sites=sites,
        pv_systems=tuple(
            _resolve(system, pv_time, sampled or AnalyticPV(index))
            for index, (system, sampled) in enumerate(zip(experiment.pv_systems, pv_profiles, strict=True))
        ),
        tvl=tuple(
            _resolve(load, load_time, load_profile or AnalyticLoad(index))
            for index, load in enumerate(experiment.loads)
        ),
        params=ScenarioParams(
            pv_scale=pv_time.scale,
            load_scale=load_time.scale,
            pv_t_shift_s=pv_time.t_shift_s,
            tvl_t_shift_s=load_time.t_shift_s,
            pv_warp=pv_time.warp,
            tvl_warp=load_time.warp,
            training_overlay=overlay,
            initial_batch_sizes={model.label: model.initial_batch_size for site in sites for model in site.models},
            randomization_profile=broad,
            tvl_profile_kind="default" if load_profile is None else load_profile.kind,
            tvl_profile_params=None if load_profile is None else load_profile.params(),
        ),
    )


def base_scenario(experiment: Experiment) -> Scenario:
    """The experiment as it stands, nothing drawn: own ramps, seeds and batches, scale 1, its training job as it is."""
    return Scenario(
        seed=0,
        sites=experiment.sites,
        pv_systems=tuple(_resolve(s, _TimeShape(1.0), AnalyticPV(i)) for i, s in enumerate(experiment.pv_systems)),
        tvl=tuple(_resolve(load, _TimeShape(1.0), AnalyticLoad(i)) for i, load in enumerate(experiment.loads)),
        params=ScenarioParams(
            pv_scale=1.0,
            load_scale=1.0,
            pv_t_shift_s=0.0,
            tvl_t_shift_s=0.0,
            pv_warp=1.0,
            tvl_warp=1.0,
            training_overlay=None if experiment.overlay is None else Overlay(experiment.overlay, 1.0),
            initial_batch_sizes={m.label: m.initial_batch_size for site in experiment.sites for m in site.models},
            randomization_profile=True,
            tvl_profile_kind="default",
            tvl_profile_params=None,
        ),
    )


def _draw_overlay(base: TrainingJob, settings: RandomizationSettings, rng: Generator) -> Overlay | None:
    broad = settings.randomization_profile
    if broad and rng.random() >= settings.overlay_prob:
        return None
    duration_s = float(rng.uniform(*_OVERLAY_DURATION_S))
    start_range = Range(0, max(0.0, DURATION_S - duration_s)) if broad else _NARROW_OVERLAY_START_S
    start_s = float(rng.uniform(*start_range))
    fraction = float(rng.uniform(*(settings.overlay_gpu_frac if broad else _NARROW_GPU_FRACTION)))
    intensity = float(rng.uniform(*settings.overlay_intensity)) if broad else 1.0
    job = TrainingJob(
        n_gpus=int(fraction * base.n_gpus),
        target_peak_w_per_gpu=base.target_peak_w_per_gpu * intensity,
        t_start_s=start_s,
        t_end_s=start_s + duration_s,
    )
    return Overlay(job, intensity)


def _draw_time_shapes(settings: RandomizationSettings, rng: Generator) -> tuple[_TimeShape, _TimeShape]:
    """Scale, shift and warp of the PV systems and of the loads."""
    if not settings.randomization_profile:
        return _TimeShape(float(rng.uniform(*_NARROW_SCALE))), _TimeShape(float(rng.uniform(*_NARROW_SCALE)))
    pv_scale = float(rng.uniform(*settings.pv_scale))
    load_scale = float(rng.uniform(*settings.load_scale))
    pv_shift_s = _draw_shift(settings.pv_t_shift_max_s, rng)
    load_shift_s = _draw_shift(settings.tvl_t_shift_max_s, rng)
    pv_warp = float(rng.uniform(*settings.pv_warp))
    load_warp = float(rng.uniform(*settings.tvl_warp))
    return _TimeShape(pv_scale, pv_shift_s, pv_warp), _TimeShape(load_scale, load_shift_s, load_warp)


def _draw_shift(most_s: float, rng: Generator) -> float:
    return float(rng.uniform(-most_s, most_s)) if most_s > 0 else 0.0


def _with_initial_batches(site: Site, rng: Generator) -> Site:
    models = tuple(
        replace(model, initial_batch_size=int(rng.choice(list(INITIAL_BATCH_CHOICES)))) for model in site.models
    )
    return replace(site, models=models)


def _resolve(
    base: BusPower, time: _TimeShape, profile: AnalyticPV | AnalyticLoad | SampledPV | SampledLoad
) -> ScenarioPower:
    """A PV system or load with its drawn scale; one with a series of its own keeps that."""
    own: Profile = profile if base.series is None else SeriesProfile(base.series, time.scale)
    return ScenarioPower(
        bus=base.bus,
        bus_kv=base.bus_kv,
        peak_kw_per_phase=base.peak_kw_per_phase * time.scale,
        power_factor=base.power_factor,
        t_shift_s=time.t_shift_s,
        time_warp=time.warp,
        profile=own,
    )
