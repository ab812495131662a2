"""One datacenter site over time: replica counts, which servers run what, noise, and the training job.

Layout and constructor checks are openg2g's own `OfflineDatacenter`; only what it computes every second is done here
at once, in the same order of operations.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from openg2g.datacenter.layout import ServerPool

from scenario_lib.feeders.sites import ModelDeployment
from scenario_lib.scenario.curves import Array
from scenario_lib.simulation.compiled.allocation import allocate_all
from scenario_lib.simulation.compiled.latency import EXACT_UP_TO, LatencyDraws, draw
from scenario_lib.simulation.compiled.random_stream import fill_normal, stream
from scenario_lib.simulation.datacenters import ScenarioDatacenter

Ints = NDArray[np.int64]

# Offsets of openg2g's `OfflineDatacenter` between a site's seed and those of its two streams.
_NOISE_SEED_OFFSET = 12345
_LATENCY_SEED_OFFSET = 54321


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
    phase_share: Array


def replica_count(model: ModelDeployment, times_s: Array) -> Ints:
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


def allocate_servers(datacenter: ScenarioDatacenter, models: tuple[ModelDeployment, ...], times_s: Array) -> Allocation:
    """Allocate servers at every distinct demand.

    Raises:
        RuntimeError: The pool has too few servers, as openg2g would find at that second.
    """
    pool = datacenter._pool
    gpus = np.array([spec.gpus_per_replica for spec in datacenter._models], np.int64)
    demand = np.stack([replica_count(model, times_s) for model in models], axis=1) * gpus
    changed = np.concatenate([[True], np.any(demand[1:] != demand[:-1], axis=1)])
    demand_of_second = np.cumsum(changed) - 1
    wanted = -(-demand[changed] // pool.gpus_per_server)
    labels = [spec.model_label for spec in datacenter._models]
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


def _shares(phase_count: Ints) -> Array:
    """Shares as openg2g has them: counts over their total, then once more over the sum of these."""
    counts = phase_count.astype(float)
    total = counts.sum(axis=-1, keepdims=True)
    share = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / 3.0)
    return np.asarray(share / ((share[..., :1] + share[..., 1:2]) + share[..., 2:]))


def draw_server_noise(datacenter: ScenarioDatacenter, out: Array, first: int) -> None:
    """Standard normals times the noise fraction, zeros without noise, into the columns of `out` from `first` on.

    One column per server, one row per second.
    """
    pool = datacenter._pool
    if pool.noise_fraction > 0:
        noise = stream(datacenter._seed + _NOISE_SEED_OFFSET)
        fill_normal(noise, pool.noise_fraction, out, first, first + pool.num_servers)
    else:
        out[:, first : first + pool.num_servers] = 0.0


def latency_draws(datacenter: ScenarioDatacenter, active_replicas: Ints) -> LatencyDraws:
    """All random numbers that the site's latencies need."""
    needed = np.where(active_replicas > EXACT_UP_TO, 1, active_replicas)
    start = np.zeros_like(active_replicas)
    normal, uniform = np.zeros(int(needed.sum())), np.zeros(int(needed.sum()))
    draw(stream(datacenter._seed + _LATENCY_SEED_OFFSET), active_replicas, start, normal, uniform)
    return LatencyDraws(start, normal, uniform)


def training_power_w(datacenter: ScenarioDatacenter, times_s: Array) -> Array:
    """Power of each training run over all phases together (W), shape (runs, T)."""
    runs = list(datacenter._workload.training)
    powers = np.zeros((len(runs), len(times_s)))
    for power, (run, start_s, end_s) in zip(powers, runs, strict=True):
        local = np.mod(times_s - start_s, run._period)
        inside = (times_s >= start_s) & (times_s <= end_s)
        power[inside] = np.interp(local, run._trace_time, run._rescaled_power)[inside] * run.n_gpus
    return powers
