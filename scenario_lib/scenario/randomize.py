"""From (experiment, settings, seed) to a scenario.

The order of draws is what a seed means: libraries name scenarios by seed, so a draw that moves breaks every library.
Steps: overlay, ramps with site seeds, scales with shape of time, load profile, PV profiles, initial batch sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from scenario_lib.feeders.arguments import as_whole_number, built_as
from scenario_lib.feeders.bus_power import BusPower
from scenario_lib.feeders.catalogue import as_experiment
from scenario_lib.feeders.checks import require_count
from scenario_lib.feeders.experiment import DURATION_S, INITIAL_BATCH_CHOICES, Experiment, TrainingJob
from scenario_lib.feeders.sites import Site
from scenario_lib.scenario.draw_profiles import draw_load_profile, draw_pv_profile
from scenario_lib.scenario.draw_ramps import draw_sites
from scenario_lib.scenario.model import Overlay, Scenario, ScenarioParams, ScenarioPower
from scenario_lib.scenario.profiles import AnalyticLoad, AnalyticPV, Profile, SampledLoad, SampledPV, SeriesProfile
from scenario_lib.scenario.settings import RandomizationSettings, Range

_OVERLAY_DURATION_S = Range(500, 1200)
_NARROW_OVERLAY_START_S = Range(500, 1500)
_NARROW_GPU_FRACTION = Range(0.85, 1.0)
_NARROW_SCALE = Range(0.5, 2.0)


@dataclass(frozen=True, slots=True)
class TimeShape:
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
    require_count("seed", seed, 0)
    settings = built_as(RandomizationSettings)("settings", {} if settings is None else settings)
    rng = np.random.default_rng(seed)
    overlay = None if experiment.overlay is None else _draw_overlay(experiment.overlay, settings, rng)
    sites = draw_sites(experiment, settings, None if overlay is None else overlay.job, rng)
    pv_time, load_time = _draw_time_shapes(settings, rng)
    broad = settings.randomization_profile
    load_profile = draw_load_profile(settings, rng) if broad and settings.randomize_tvl_profile else None
    pv_profiles = [
        draw_pv_profile(settings, rng) if broad and settings.randomize_pv_profile else None
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
        pv_systems=tuple(_resolve(s, TimeShape(1.0), AnalyticPV(i)) for i, s in enumerate(experiment.pv_systems)),
        tvl=tuple(_resolve(load, TimeShape(1.0), AnalyticLoad(i)) for i, load in enumerate(experiment.loads)),
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


def _draw_time_shapes(settings: RandomizationSettings, rng: Generator) -> tuple[TimeShape, TimeShape]:
    """Scale, shift and warp of the PV systems and of the loads."""
    if not settings.randomization_profile:
        return TimeShape(float(rng.uniform(*_NARROW_SCALE))), TimeShape(float(rng.uniform(*_NARROW_SCALE)))
    pv_scale = float(rng.uniform(*settings.pv_scale))
    load_scale = float(rng.uniform(*settings.load_scale))
    pv_shift_s = _draw_shift(settings.pv_t_shift_max_s, rng)
    load_shift_s = _draw_shift(settings.tvl_t_shift_max_s, rng)
    pv_warp = float(rng.uniform(*settings.pv_warp))
    load_warp = float(rng.uniform(*settings.tvl_warp))
    return TimeShape(pv_scale, pv_shift_s, pv_warp), TimeShape(load_scale, load_shift_s, load_warp)


def _draw_shift(most_s: float, rng: Generator) -> float:
    return float(rng.uniform(-most_s, most_s)) if most_s > 0 else 0.0


def _with_initial_batches(site: Site, rng: Generator) -> Site:
    models = tuple(
        replace(model, initial_batch_size=int(rng.choice(list(INITIAL_BATCH_CHOICES)))) for model in site.models
    )
    return replace(site, models=models)


def _resolve(
    base: BusPower, time: TimeShape, profile: AnalyticPV | AnalyticLoad | SampledPV | SampledLoad
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
