"""One datacenter site over time: replica counts, which servers run what, noise, and the training job.

Layout and constructor checks are openg2g's own `OfflineDatacenter`; only what it computes every second is done here
at once, in the same order of operations.

All datacenters of a scenario as tables: what no batch decision can change, and how a batch size becomes power.

The sites' models are numbered through, M together, and so are their servers.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from openg2g.datacenter.layout import ServerPool
from openg2g.datacenter.workloads.inference import InferenceData

from scenario_lib._arrays import Floats, Ints
from scenario_lib.errors import NotModelledError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.sites import ModelDeployment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.random_stream import fill_normal, stream
from scenario_lib.simulation.compiled.servers import (
    EXACT_UP_TO,
    LatencyDraws,
    LatencyFits,
    Servers,
    allocate_all,
    draw,
    fill_model_power,
)
from scenario_lib.simulation.opendss.datacenters import build_datacenters
from scenario_lib.simulation.opendss.openg2g_internals import ScenarioDatacenter


@dataclass(frozen=True, slots=True)
class Allocation:
    """Which servers each of a site's M models runs on at each of T seconds.

    Attributes:
        servers: Servers of all distinct demands, one demand after another; phase by phase within a model.
        first: Where a model's servers begin in `servers`, shape (T, M).
        phase_count: How many it has on each phase, shape (T, M, 3).
        active_replicas: Replicas of whole servers, shape (T, M).
        phase_share: Part of its servers on each phase, a third each where it has none, shape (T, M, 3).
    """

    servers: Ints
    first: Ints
    phase_count: Ints
    active_replicas: Ints
    phase_share: Floats


def _replica_count(model: ModelDeployment, times_s: Floats) -> Ints:
    """Replicas that the schedule asks for at each time, rounded to even at halves; none for a model without any
    before its ramps, which openg2g never starts."""
    if model.replicas <= 0:
        return np.zeros(len(times_s), np.int64)
    count = np.full(len(times_s), float(model.replicas))
    level = float(model.replicas)
    for ramp in model.ramps:
        target, started = float(ramp.target_replicas), times_s >= ramp.t_start_s
        inside = started & (times_s <= ramp.t_end_s)
        count[started] = target
        if ramp.t_end_s > ramp.t_start_s:
            way = (times_s[inside] - ramp.t_start_s) / (ramp.t_end_s - ramp.t_start_s)
            count[inside] = level + (target - level) * way
        level = target
    return np.asarray(np.rint(count), np.int64)


def _allocate_servers(
    datacenter: ScenarioDatacenter, models: tuple[ModelDeployment, ...], times_s: Floats
) -> Allocation:
    """Allocate servers at every distinct demand.

    Raises:
        RuntimeError: The pool has too few servers, as openg2g would find at that second.
    """
    pool = datacenter.server_pool
    gpus = np.array([spec.gpus_per_replica for spec in datacenter.model_specs], np.int64)
    demand = np.stack([_replica_count(model, times_s) for model in models], axis=1) * gpus
    changed = np.concatenate([[True], np.any(demand[1:] != demand[:-1], axis=1)])
    demand_of_second = np.cumsum(changed) - 1
    wanted = -(-demand[changed] // pool.gpus_per_server)
    labels = [spec.model_label for spec in datacenter.model_specs]
    claim_order = np.array(sorted(range(len(labels)), key=lambda m: labels[m]), np.int64)
    servers, phase_count = _allocate_distinct(pool, labels, wanted, claim_order)
    first = np.zeros_like(wanted)
    first[:, claim_order] = np.cumsum(wanted[:, claim_order], axis=1) - wanted[:, claim_order]
    first += (np.arange(len(wanted)) * servers.shape[1])[:, None]
    replicas = wanted * pool.gpus_per_server // gpus
    return Allocation(
        servers.ravel(),
        first[demand_of_second],
        phase_count[demand_of_second],
        replicas[demand_of_second],
        _shares(phase_count)[demand_of_second],
    )


def _allocate_distinct(pool: ServerPool, labels: list[str], wanted: Ints, claim_order: Ints) -> tuple[Ints, Ints]:
    phases = np.asarray(pool.phase_list)
    by_phase = np.stack([_sorted_by_phase(pool.model_priorities[label], phases) for label in labels])
    phase_start = np.concatenate([[0], np.cumsum(np.bincount(phases, minlength=3))]).astype(np.int64)
    servers = np.zeros((len(wanted), max(int(wanted.sum(axis=1).max()), 1)), np.int64)
    phase_count = np.zeros((*wanted.shape, 3), np.int64)
    demand, short = allocate_all(by_phase, phase_start, wanted, claim_order, servers, phase_count)
    if short >= 0:
        raise RuntimeError(
            f"the server pool is too small: model {labels[short]} asks for {wanted[demand, short]} of "
            f"{len(phases)} servers, and others hold too many"
        )
    return servers, phase_count


def _sorted_by_phase(priority: Ints, phases: Ints) -> Ints:
    return np.asarray(priority[np.argsort(phases[priority], kind="stable")], np.int64)


def _shares(phase_count: Ints) -> Floats:
    """Shares as openg2g has them: counts over their total, then once more over the sum of these."""
    counts = phase_count.astype(float)
    total = counts.sum(axis=-1, keepdims=True)
    share = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / 3.0)
    return np.asarray(share / ((share[..., :1] + share[..., 1:2]) + share[..., 2:]))


def _draw_server_noise(datacenter: ScenarioDatacenter, out: Floats, first: int) -> None:
    """Standard normals times the noise fraction, zeros without noise, into the columns of `out` from `first` on.

    One column per server, one row per second.
    """
    pool = datacenter.server_pool
    if pool.noise_fraction > 0:
        noise = stream(datacenter.noise_seed)
        fill_normal(noise, pool.noise_fraction, out, first, first + pool.num_servers)
    else:
        out[:, first : first + pool.num_servers] = 0.0


def latency_draws(datacenter: ScenarioDatacenter, active_replicas: Ints) -> LatencyDraws:
    """All random numbers that the site's latencies need."""
    needed = np.where(active_replicas > EXACT_UP_TO, 1, active_replicas)
    start = np.zeros_like(active_replicas)
    normal, uniform = np.zeros(int(needed.sum())), np.zeros(int(needed.sum()))
    draw(stream(datacenter.latency_seed), active_replicas, start, normal, uniform)
    return LatencyDraws(start, normal, uniform)


_Table = TypeVar("_Table", Floats, Ints)


@dataclass(frozen=True, slots=True)
class DatacenterTables:
    """Datacenters over T seconds; S sites, M deployed models, L batch levels.

    Attributes:
        site_names, model_labels: Names of the S sites, and (site, label) of the M models.
        site_of_model: Shape (M,).
        batch_sizes: Batch size of each level, rising, shape (M, L); models of a site share theirs, and rows are
            filled up with their last.
        n_levels: Levels of each model, shape (M,).
        initial_levels: Level at the first second, shape (M,).
        servers, latency_fits, latency_draws: See there.
        active_replicas: Replicas of whole servers, shape (T, M).
        phase_share: Part of each model's servers on each phase, shape (T, M, 3).
        base_w: Facility power per phase (W), shape (S,).
        training_w: Training power per phase (W), one run after another, shape (runs, T); the first site's.
        initial_power_w: Power of each model at its initial level (W), shape (T, M, 3).
    """

    site_names: tuple[str, ...]
    model_labels: tuple[tuple[str, str], ...]
    site_of_model: Ints
    batch_sizes: Ints
    n_levels: Ints
    initial_levels: Ints
    servers: Servers
    latency_fits: LatencyFits
    latency_draws: LatencyDraws
    active_replicas: Ints
    phase_share: Floats
    base_w: Floats
    training_w: Floats
    initial_power_w: Floats


@dataclass(frozen=True, slots=True)
class _Levels:
    """What batch sizes mean, the same for every scenario of an experiment."""

    batch_sizes: Ints
    n_levels: Ints
    templates_w: Floats
    fits: LatencyFits


def build_tables(scenario: Scenario, experiment: Experiment, assets: Assets, n_seconds: int) -> DatacenterTables:
    """Compile the datacenters of a scenario.

    Raises:
        ValueError, RuntimeError: A drawn ramp needs more GPUs than its site has, as in the reference engine.
        NotModelledError: A model can be given a batch size for which it has no data.
    """
    times_s = np.arange(n_seconds, dtype=float)
    datacenters = list(build_datacenters(scenario, experiment, assets).values())
    labels = tuple((site.name, model.label) for site in scenario.sites for model in site.models)
    sites = tuple(tuple(model.label for model in site.models) for site in scenario.sites)
    levels = _levels(sites, experiment, assets)
    allocations = [
        _allocate_servers(datacenter, site.models, times_s)
        for datacenter, site in zip(datacenters, scenario.sites, strict=True)
    ]
    draws = [
        latency_draws(datacenter, allocation.active_replicas)
        for datacenter, allocation in zip(datacenters, allocations, strict=True)
    ]
    servers = _servers(datacenters, allocations, levels, n_seconds)
    initial = np.array([model.initial_batch_size for site in scenario.sites for model in site.models])
    initial_levels = np.argmax(levels.batch_sizes == initial[:, None], axis=1).astype(np.int64)
    power_w = np.zeros((n_seconds, len(labels), 3))
    fill_model_power(servers, initial_levels, power_w)
    return DatacenterTables(
        site_names=tuple(site.name for site in scenario.sites),
        model_labels=labels,
        site_of_model=np.repeat(np.arange(len(sites)), [len(site) for site in sites]).astype(np.int64),
        batch_sizes=levels.batch_sizes,
        n_levels=levels.n_levels,
        initial_levels=initial_levels,
        servers=servers,
        latency_fits=levels.fits,
        latency_draws=_joined_draws(draws),
        active_replicas=_joined([allocation.active_replicas for allocation in allocations]),
        phase_share=_joined([allocation.phase_share for allocation in allocations]),
        base_w=np.array([datacenter.base_w_per_phase for datacenter in datacenters]),
        training_w=datacenters[0].training_power_w(times_s) / 3.0,
        initial_power_w=power_w,
    )


def _joined(parts: list[_Table]) -> _Table:
    """Tables of the sites side by side, second axis, as one."""
    return np.ascontiguousarray(np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0])


def _joined_draws(draws: list[LatencyDraws]) -> LatencyDraws:
    offsets = np.cumsum([0, *(len(site.normal) for site in draws[:-1])])
    return LatencyDraws(
        start=_joined([site.start + offset for site, offset in zip(draws, offsets, strict=True)]),
        normal=np.concatenate([site.normal for site in draws]),
        uniform=np.concatenate([site.uniform for site in draws]),
    )


def _servers(
    datacenters: list[ScenarioDatacenter], allocations: list[Allocation], levels: _Levels, n_seconds: int
) -> Servers:
    pools = [datacenter.server_pool for datacenter in datacenters]
    server_offset = np.cumsum([0, *(pool.num_servers for pool in pools[:-1])])
    list_offset = np.cumsum([0, *(len(allocation.servers) for allocation in allocations[:-1])])
    return Servers(
        templates_w=levels.templates_w,
        gpus=float(pools[0].gpus_per_server),
        amplitude=np.concatenate([pool.amplitude_scales for pool in pools]),
        stagger_s=np.concatenate([pool.stagger_offsets for pool in pools]).astype(np.uint32),
        noise=_noise(datacenters, n_seconds),
        allocated=np.concatenate(
            [a.servers + offset for a, offset in zip(allocations, server_offset, strict=True)]
        ).astype(np.uint32),
        first=_joined([a.first + offset for a, offset in zip(allocations, list_offset, strict=True)]),
        phase_count=_joined([a.phase_count for a in allocations]),
    )


def _noise(datacenters: list[ScenarioDatacenter], n_seconds: int) -> Floats:
    """Noise of all sites' servers side by side, each site from its own stream; by far the largest table."""
    counts = [datacenter.server_pool.num_servers for datacenter in datacenters]
    noise = np.empty((n_seconds, sum(counts)))
    for datacenter, first in zip(datacenters, np.cumsum([0, *counts[:-1]]), strict=True):
        _draw_server_noise(datacenter, noise, int(first))
    return noise


def _levels(sites: tuple[tuple[str, ...], ...], experiment: Experiment, assets: Assets) -> _Levels:
    feasible = tuple(
        tuple(sorted({int(b) for label in labels for b in experiment.spec(label).feasible_batch_sizes}))
        for labels in sites
    )
    return _levels_of(sites, feasible, _ById(assets.inference))


class _ById:
    """Loaded data as a key of a cache: the same object, whatever it holds."""

    def __init__(self, inference: InferenceData) -> None:
        self.inference = inference

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.inference is other.inference

    def __hash__(self) -> int:
        return id(self.inference)


@lru_cache(maxsize=8)
def _levels_of(sites: tuple[tuple[str, ...], ...], feasible: tuple[tuple[int, ...], ...], data: _ById) -> _Levels:
    longest = max(len(batches) for batches in feasible)
    rows = [(label, batches) for labels, batches in zip(sites, feasible, strict=True) for label in labels]
    padded = [[*batches, *[batches[-1]] * (longest - len(batches))] for _, batches in rows]
    templates = [
        [_template(data.inference, label, batch_size) for batch_size in row]
        for (label, _), row in zip(rows, padded, strict=True)
    ]
    if len({len(template) for row in templates for template in row}) > 1:
        raise NotModelledError("power templates of different lengths")
    return _Levels(
        batch_sizes=np.array(padded, np.int64),
        n_levels=np.array([len(batches) for _, batches in rows], np.int64),
        templates_w=np.array(templates),
        fits=_fits(data.inference, [label for label, _ in rows], padded),
    )


def _template(inference: InferenceData, label: str, batch_size: int) -> Floats:
    try:
        return np.asarray(inference.power_templates.template(label, batch_size))
    except KeyError:
        raise NotModelledError(
            f"batch size {batch_size} for model {label}: feasible at its site, but without a power trace"
        ) from None


def _fits(inference: InferenceData, labels: list[str], batch_sizes: list[list[int]]) -> LatencyFits:
    shape = (len(labels), len(batch_sizes[0]))
    one, two = shape, (*shape, 2)
    fits = LatencyFits(np.zeros(one), np.zeros(one), np.zeros(one), np.zeros(one), np.zeros(two), np.zeros(two))
    for m, (label, row) in enumerate(zip(labels, batch_sizes, strict=True)):
        mixtures = inference.itl_fits.distributions[label]
        for level, batch_size in enumerate(row):
            if batch_size not in mixtures:
                raise NotModelledError(f"batch size {batch_size} for model {label}: no latency fit for it")
            mixture, where = mixtures[batch_size], (m, level)
            fits.mean_s[where], fits.variance_s2[where] = mixture.mean_var()
            fits.offset_s[where] = mixture.loc
            total = max(float(mixture.pi_steady) + float(mixture.pi_stall), 1e-12)
            fits.steady_weight[where] = float(mixture.pi_steady) / total
            for part, (scale, sigma) in enumerate(
                ((mixture.scale_steady, mixture.sigma_steady), (mixture.scale_stall, mixture.sigma_stall))
            ):
                fits.log_scale[(*where, part)] = math.log(max(scale, 1e-15))
                fits.sigma[(*where, part)] = max(sigma, 0.0)
    return fits
