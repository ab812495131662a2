"""Ramps: in order, not overlapping, clear of the overlay, and within the GPUs of their site."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.feeders.sites import Ramp, Site
from scenario_lib.scenario.randomize import draw_sites, randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range

DEFAULTS = RandomizationSettings()
MANY = RandomizationSettings(
    n_ramps_per_site_choices=(0, 1, 2, 3, 6), ramp_up_prob=0.5, ramp_start=Range(0, 3500), ramp_dur=Range(20, 600)
)
NARROW = RandomizationSettings(randomization_profile=False)
CROWDED = RandomizationSettings(n_ramps_per_site_choices=(8,), ramp_start=Range(1000, 1400), ramp_dur=Range(49, 60))
TINY = RandomizationSettings(n_ramps_per_site_choices=(4,), ramp_start=Range(1000, 1002), ramp_dur=Range(0.3, 0.4))
EACH = pytest.mark.parametrize(
    "settings", [DEFAULTS, MANY, NARROW, CROWDED, TINY], ids=["defaults", "many", "narrow", "crowded", "tiny"]
)
SYSTEMS = ("ieee13", "ieee34", "ieee123")
SEEDS = range(120)


def windows(site: Site) -> list[tuple[float, float]]:
    """The ramps' windows, which all models of a site share."""
    (shared,) = {tuple((ramp.t_start_s, ramp.t_end_s) for ramp in model.ramps) for model in site.models}
    return list(shared)


def gpus_after_ramps(experiment: Experiment, site: Site) -> list[int]:
    """GPUs that a site's models occupy at the end of each ramp."""
    counts = len(site.models[0].ramps)
    return [
        sum(model.ramps[i].target_replicas * experiment.spec(model.label).gpus_per_replica for model in site.models)
        for i in range(counts)
    ]


@EACH
@pytest.mark.parametrize("system", SYSTEMS)
def test_ramps_are_in_order_and_do_not_overlap(system: str, settings: RandomizationSettings) -> None:
    experiment = load_experiment(system)
    drawn = 0
    for seed in SEEDS:
        for site in randomize_scenario(seed, experiment=experiment, settings=settings).sites:
            shared = windows(site)
            drawn += len(shared)
            assert all(start < end for start, end in shared)
            assert all(earlier[1] <= later[0] for earlier, later in pairwise(shared))
            assert all(ramp.target_replicas >= 1 for model in site.models for ramp in model.ramps)
            assert 0 <= site.seed < 10_000
    assert drawn > len(SEEDS) / 2


@pytest.mark.parametrize("system", SYSTEMS)
def test_openg2g_takes_every_drawn_schedule(system: str) -> None:
    """Its `ReplicaSchedule` raises on overlapping windows."""
    schedule_type = pytest.importorskip("openg2g.datacenter.config").ReplicaSchedule
    experiment, taken = load_experiment(system), 0
    for settings in (CROWDED, TINY, MANY):
        for seed in range(40):
            for site in randomize_scenario(seed, experiment=experiment, settings=settings).sites:
                for model in site.models:
                    schedule = schedule_type(initial=model.replicas)
                    for ramp in model.ramps:
                        schedule = schedule.ramp_to(ramp.target_replicas, t_start=ramp.t_start_s, t_end=ramp.t_end_s)
                        taken += 1
                    assert len(schedule) == len(model.ramps)
    assert taken > 1000


def test_ramps_keep_clear_of_the_overlay() -> None:
    """With the default ranges there always is room before or after it."""
    experiment, before, after = load_experiment("ieee13"), 0, 0
    for seed in range(400):
        scenario = randomize_scenario(seed, experiment=experiment)
        job = scenario.training_run
        assert job is not None
        for start, end in windows(scenario.sites[0]):
            assert end <= job.t_start_s or start >= job.t_end_s
            before += end <= job.t_start_s
            after += start >= job.t_end_s
    assert before > 50
    assert after > 50


def test_without_room_the_full_range_is_used() -> None:
    experiment = load_experiment("ieee13")
    job = TrainingJob(2000, 400.0, t_start_s=400.0, t_end_s=3200.0)
    starts = []
    for seed in range(50):
        (site,) = draw_sites(experiment, DEFAULTS, job, np.random.default_rng(seed))
        ((start, _),) = windows(site)
        starts.append(start)
    assert all(500 <= start <= 3000 for start in starts)
    assert max(starts) - min(starts) > 1000


@pytest.mark.parametrize("system", SYSTEMS)
def test_ramps_down_stay_below_the_start(system: str) -> None:
    experiment, counted = load_experiment(system), 0
    settings = replace(MANY, ramp_up_prob=0.0)
    for seed in SEEDS:
        for site in randomize_scenario(seed, experiment=experiment, settings=settings).sites:
            for model in site.models:
                for ramp in model.ramps:
                    low, high = settings.ramp_down_frac
                    assert round(low * model.replicas) <= ramp.target_replicas <= round(high * model.replicas)
                    counted += 1
    assert counted > len(SEEDS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_ramps_up_stay_within_the_gpus(system: str) -> None:
    """But for rounding to whole replicas, by at most half a replica of each model."""
    experiment = load_experiment(system)
    overlay = TrainingJob(n_gpus=60, target_peak_w_per_gpu=400.0, t_start_s=0.0, t_end_s=1.0)
    experiment = replace(experiment, overlay=experiment.overlay or overlay)
    settings = replace(MANY, ramp_up_prob=1.0, ramp_up_frac=Range(1.05, 9.0))
    went_up = 0
    for seed in SEEDS:
        scenario = randomize_scenario(seed, experiment=experiment, settings=settings)
        for position, site in enumerate(scenario.sites):
            job = scenario.training_run if position == 0 else None
            free = site.total_gpu_capacity - (0 if job is None else job.n_gpus)
            specs = experiment.site_models(site)
            running = sum(m.replicas * s.gpus_per_replica for m, s in zip(site.models, specs, strict=True))
            if free < 1.051 * running:  # no room: it went down, or up by a thousandth over what is free
                continue
            rounding = sum(spec.gpus_per_replica / 2 for spec in specs)
            for gpus in gpus_after_ramps(experiment, site):
                assert gpus <= free + rounding
                went_up += gpus > running
    assert went_up > 50


def test_a_full_site_never_ramps_up() -> None:
    experiment = load_experiment("ieee13")
    (site,) = experiment.sites
    running = sum(m.replicas * experiment.spec(m.label).gpus_per_replica for m in site.models)
    full = replace(experiment, sites=(replace(site, total_gpu_capacity=running),), overlay=None)
    settings = replace(MANY, ramp_up_prob=1.0)
    for seed in SEEDS:
        (drawn,) = randomize_scenario(seed, experiment=full, settings=settings).sites
        assert all(gpus < running for gpus in gpus_after_ramps(full, drawn))


def test_with_just_enough_room_it_goes_up_a_little() -> None:
    """Where the free GPUs are exactly the least factor, the draw is over a thousandth above it."""
    experiment = replace(load_experiment("ieee13"), overlay=None)
    (site,) = experiment.sites
    running = sum(m.replicas * experiment.spec(m.label).gpus_per_replica for m in site.models)
    just = replace(experiment, sites=(replace(site, total_gpu_capacity=running * 105 // 100),))
    assert just.sites[0].total_gpu_capacity / running == 1.05
    settings = replace(DEFAULTS, ramp_up_prob=1.0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rng.choice([1])
        duration = rng.uniform(300, 800)
        rng.uniform(500, max(501.0, 3000 - duration))
        assert rng.random() < 1.0
        fraction = rng.uniform(1.05, 1.05 + 1e-3)
        (drawn,) = randomize_scenario(seed, experiment=just, settings=settings).sites
        assert [model.ramps[0].target_replicas for model in drawn.models] == [
            round(fraction * model.replicas) for model in drawn.models
        ]
        assert drawn.seed == int(rng.integers(0, 10_000))
        less = replace(just, sites=(replace(just.sites[0], total_gpu_capacity=running * 105 // 100 - 1),))
        (lower,) = randomize_scenario(seed, experiment=less, settings=settings).sites
        assert gpus_after_ramps(less, lower)[0] < running


def raw_windows(seed: int, settings: RandomizationSettings) -> list[tuple[float, float]]:
    """The windows as drawn, before what overlaps is moved: one zone, one site, never up."""
    rng = np.random.default_rng(seed)
    low, high = settings.ramp_start
    count = int(rng.choice(list(settings.n_ramps_per_site_choices)))
    width, drawn = (high - low) / count, []
    for band in range(count):
        band_low, band_high = low + band * width, low + (band + 1) * width
        duration = rng.uniform(settings.ramp_dur.low, min(settings.ramp_dur.high, width))
        start = rng.uniform(band_low, max(band_low + 1.0, band_high - duration))
        rng.random()  # up or down
        rng.uniform(*settings.ramp_down_frac)
        drawn.append((float(start), float(start + duration)))
    return drawn


@pytest.mark.parametrize("settings", [CROWDED, TINY], ids=["crowded", "tiny"])
def test_an_overlapping_ramp_starts_at_the_end_of_the_earlier_one(settings: RandomizationSettings) -> None:
    experiment = replace(load_experiment("ieee13"), overlay=None)
    moved = dropped = 0
    for seed in SEEDS:
        expected: list[tuple[float, float]] = []
        for start, end in raw_windows(seed, settings):
            free_from = expected[-1][1] if expected else 0.0
            moved += start < free_from < end
            dropped += free_from >= end
            if free_from < end:
                expected.append((max(start, free_from), end))
        (site,) = randomize_scenario(seed, experiment=experiment, settings=settings).sites
        assert windows(site) == expected
    assert moved > 50
    assert (dropped > 10) is (settings is TINY)


def test_steps_are_ramps_of_no_duration() -> None:
    experiment = replace(load_experiment("ieee13"), overlay=None)
    settings = replace(DEFAULTS, ramp_dur=Range(0, 0), n_ramps_per_site_choices=(3,))
    for seed in range(20):
        (site,) = randomize_scenario(seed, experiment=experiment, settings=settings).sites
        assert len(windows(site)) == 3
        assert all(start == end for start, end in windows(site))


def test_bands_too_narrow_for_a_ramp_are_skipped() -> None:
    experiment = replace(load_experiment("ieee13"), overlay=None)
    settings = replace(DEFAULTS, ramp_start=Range(1000, 1500), ramp_dur=Range(300, 800))
    one = randomize_scenario(7, experiment=experiment, settings=settings)
    two = randomize_scenario(7, experiment=experiment, settings=replace(settings, n_ramps_per_site_choices=(2,)))
    assert len(windows(one.sites[0])) == 1
    assert windows(two.sites[0]) == []
    ((start, end),) = windows(
        randomize_scenario(7, experiment=experiment, settings=replace(settings, ramp_start=Range(1000, 1300))).sites[0]
    )
    assert end - start == pytest.approx(300)


def test_ramps_are_not_drawn_when_switched_off() -> None:
    experiment = load_experiment("ieee13")
    settings = replace(DEFAULTS, randomize_ramps=False)
    (site,) = randomize_scenario(7, experiment=experiment, settings=settings).sites
    assert [model.ramps for model in site.models] == [model.ramps for model in experiment.sites[0].models]
    assert site.models[0].ramps == (Ramp(144, 2500.0, 3000.0),)
    assert site.seed == experiment.sites[0].seed


def test_the_narrow_profile_ramps_all_sites_at_once() -> None:
    experiment = load_experiment("ieee123")
    for seed in range(20):
        scenario = randomize_scenario(seed, experiment=experiment, settings=NARROW)
        ((window,),) = {tuple(windows(site)) for site in scenario.sites}
        assert 500 <= window[0] <= 3000
        assert 300 <= window[1] - window[0] <= 800 + 1e-9
        assert len({site.seed for site in scenario.sites}) == 4
