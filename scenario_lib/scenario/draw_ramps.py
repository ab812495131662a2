"""Draws of inference ramps and of each site's seed: step 2 of a scenario's draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from numpy.random import Generator

from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.sites import ModelDeployment, Ramp, Site
from scenario_lib.scenario.settings import RandomizationSettings, Range

_LEAST_RAMP_UP = 1.05
_SITE_SEEDS = 10_000

Whole = Callable[[float], int]
"""How a fraction of the replicas becomes a count: cut off (narrow) or rounded half to even (broad)."""


@dataclass(frozen=True, slots=True)
class RampWindow:
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
    window = RampWindow(fraction, start_s, start_s + duration_s)
    return tuple(_with_ramps(site, [window], int, rng) for site in sites)


def _with_ramps(site: Site, windows: Sequence[RampWindow], whole: Whole, rng: Generator) -> Site:
    models = tuple(_ramped(model, windows, whole) for model in site.models)
    return replace(site, models=models, seed=int(rng.integers(0, _SITE_SEEDS)))


def _ramped(model: ModelDeployment, windows: Sequence[RampWindow], whole: Whole) -> ModelDeployment:
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
) -> list[RampWindow]:
    count = int(rng.choice(list(settings.n_ramps_per_site_choices)))
    windows: list[RampWindow] = []
    for zone, share in zip(zones, _shares(count, zones), strict=True):
        width_s = (zone.high - zone.low) / share if share else 0.0
        # A ramp does not fit into bands narrower than the shortest: all of them are skipped, without a draw.
        for band in _bands(zone, share, width_s) if width_s >= settings.ramp_dur.low else ():
            window = _draw_window(settings, band, min(settings.ramp_dur.high, width_s), largest, rng)
            windows += _after(windows[-1:], window)
    return windows


def _after(earlier: Sequence[RampWindow], window: RampWindow) -> list[RampWindow]:
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
) -> RampWindow:
    duration_s = float(rng.uniform(settings.ramp_dur.low, longest_s))
    start_s = float(rng.uniform(band.low, max(band.low + 1.0, band.high - duration_s)))
    least_up = max(_LEAST_RAMP_UP, settings.ramp_up_frac.low)
    if largest >= least_up and rng.random() < settings.ramp_up_prob:
        fraction = float(rng.uniform(least_up, max(least_up + 1e-3, largest)))
    else:
        fraction = float(rng.uniform(*settings.ramp_down_frac))
    return RampWindow(fraction, start_s, start_s + duration_s)
