"""Which servers a model runs on: openg2g's phase-balanced round robin, as a kernel.

Models take servers in the order of their labels; each goes through phases A, B, C in turn and takes its own
highest-priority server of that phase that nobody has claimed. An allocation depends on the demand only, which changes
only inside ramps.

What a model's servers draw in one second: openg2g's numbers to the last bit, as it adds them up.

A server draws its template value times its GPUs and its own amplitude, plus noise in proportion, never less than 0.

Observed inter-token latency: the mean of a fleet, from random numbers drawn beforehand.

What is drawn depends on replica counts only, never on the batch size, so one set of draws serves every rollout. More
than 30 replicas take one normal per second; fewer take a uniform and a normal for each replica, and their values are
averaged as numpy averages a short list.
"""

from typing import NamedTuple

import numpy as np

from scenario_lib._arrays import Floats, Indices, Ints
from scenario_lib.simulation.compiled.jit import inlined_kernel, kernel
from scenario_lib.simulation.compiled.random_stream import next_normal, next_uniform


@kernel
def allocate(by_phase, phase_start, wanted, claim_order, servers, phase_count):  # type: ignore[no-untyped-def]
    """Claim servers for all models; within a model they are listed phase by phase, each in the order of claiming.

    Args:
        by_phase: For each model, its priority order sorted stably by phase, shape (M, servers).
        phase_start: Where each phase begins in these, shape (4,).
        wanted: Servers that each model asks for, shape (M,).
        claim_order: Models in the order in which they claim, shape (M,).
        servers: Room for the claimed servers, model by model in claiming order.
        phase_count: Room for how many each model has on each phase, shape (M, 3).

    Returns:
        -1, or the first model for which the pool has too few servers.
    """
    claimed = np.zeros(by_phase.shape[1], np.int8)
    filled = 0
    for model in claim_order:
        short = _claim(by_phase[model], phase_start, wanted[model], claimed, phase_count[model])
        if short:
            return model
        for phase in range(3):
            left = phase_count[model, phase]
            p = phase_start[phase]
            while left > 0:
                server = by_phase[model, p]
                p += 1
                if claimed[server] == 2:
                    servers[filled] = server
                    claimed[server] = 1
                    filled += 1
                    left -= 1
    return -1


@kernel
def _claim(by_phase, phase_start, wanted, claimed, phase_count):  # type: ignore[no-untyped-def]
    """Mark one model's servers with 2 and count them by phase; True if there are too few.

    Args:
        by_phase, phase_start, wanted: Of this model, see `allocate`.
        claimed: 0 for a free server, 1 for one of another model, 2 for one of this, shape (servers,).
        phase_count: Room for the counts, shape (3,).
    """
    cursor = phase_start[:3].copy()
    phase_count[:] = 0
    phase = 0
    for _ in range(wanted):
        taken = _next_free(by_phase, phase_start, claimed, cursor, phase)
        if taken < 0:
            return True
        claimed[by_phase[cursor[taken] - 1]] = 2
        phase_count[taken] += 1
        phase = (taken + 1) % 3
    return False


@kernel
def _next_free(by_phase, phase_start, claimed, cursor, phase):  # type: ignore[no-untyped-def]
    """The phase, tried from `phase` on, that has a free server; the cursor there ends one beyond it. -1 if none.

    Args:
        by_phase, phase_start, claimed: See `_claim`.
        cursor: Where to look next on each phase, moved on, shape (3,).
    """
    for attempt in range(3):
        tried = (phase + attempt) % 3
        while cursor[tried] < phase_start[tried + 1]:
            cursor[tried] += 1
            if not claimed[by_phase[cursor[tried] - 1]]:
                return tried
    return -1


@kernel
def allocate_all(by_phase, phase_start, wanted, claim_order, servers, phase_count):  # type: ignore[no-untyped-def]
    """`allocate` for each of D demands: one more axis of D in front of `wanted`, `servers` and `phase_count`.

    Returns:
        (demand, model) that is short of servers, or (-1, -1).
    """
    for demand in range(wanted.shape[0]):
        short = allocate(by_phase, phase_start, wanted[demand], claim_order, servers[demand], phase_count[demand])
        if short >= 0:
            return demand, short
    return -1, -1


_LEAST_NOISE_BASE_W = 1.0


class Servers(NamedTuple):
    """Servers of all sites together; T seconds, M deployed models, L batch levels, R servers.

    Attributes:
        templates_w: Power of one GPU over the template (W), which repeats, shape (M, L, seconds).
        gpus: GPUs per server.
        amplitude: Multiplier of each server, shape (R,).
        stagger_s: Shift of each server within the template (s), less than its length, shape (R,).
        noise: Standard normals times the noise fraction, shape (T, R).
        allocated: Servers of all allocations, model by model and phase by phase.
        first, phase_count: Where each model's servers begin in `allocated`, and how many it has on each phase, at
            every second, shapes (T, M) and (T, M, 3).
    """

    templates_w: Floats
    gpus: float
    amplitude: Floats
    stagger_s: Indices
    noise: Floats
    allocated: Indices
    first: Ints
    phase_count: Ints


@kernel
def model_power_w(servers: Servers, second: int, model: int, level: int, out_w: Floats) -> None:
    """Power of one model at a level and second, on each phase (W), into `out_w`, shape (3,)."""
    start = servers.first[second, model]
    count = servers.phase_count[second, model]
    total = count[0] + count[1] + count[2]
    power_w = np.empty(total)
    _server_power_w(
        servers.templates_w[model, level],
        second,
        servers.gpus,
        servers.allocated[start : start + total],
        (servers.amplitude, servers.stagger_s, servers.noise[second]),
        power_w,
    )
    _sum_phases(power_w, count, out_w)


@kernel
def _server_power_w(template_w, second, gpus, allocated, of_server, out_w):  # type: ignore[no-untyped-def]
    """Power of each allocated server (W). A loop without branches, so that several servers are done at a time.

    Args:
        template_w: Power of one GPU over the template (W), shape (seconds,).
        gpus: GPUs per server.
        allocated: Which servers, shape (K,).
        of_server: Amplitude, stagger (s) and noise of all servers, shape (R,) each; see `Servers`.
        out_w: Room, shape (K,).
    """
    amplitude, stagger_s, noise = of_server
    length = np.uint32(template_w.size)
    now = np.uint32(second) % length
    for i in range(allocated.size):
        server = allocated[i]
        sample = now + stagger_s[server]
        sample = sample - length if sample >= length else sample
        power = template_w[sample] * gpus * amplitude[server]
        power += noise[server] * (power if power > _LEAST_NOISE_BASE_W else _LEAST_NOISE_BASE_W)
        out_w[i] = power if power > 0.0 else 0.0


@kernel
def _sum_phases(power_w, count, out_w):  # type: ignore[no-untyped-def]
    """Add up each phase in the servers' order; the three sums go side by side as far as all phases have servers."""
    second, third = count[0], count[0] + count[1]
    together = min(count[0], count[1], count[2])
    a, b, c = 0.0, 0.0, 0.0
    for i in range(together):
        a += power_w[i]
        b += power_w[second + i]
        c += power_w[third + i]
    for i in range(together, count[0]):
        a += power_w[i]
    for i in range(together, count[1]):
        b += power_w[second + i]
    for i in range(together, count[2]):
        c += power_w[third + i]
    out_w[0], out_w[1], out_w[2] = a, b, c


@kernel
def fill_model_power(servers: Servers, levels: Ints, out_w: Floats) -> None:
    """Power of every model at one level each, all seconds: out_w has shape (T, M, 3)."""
    for second in range(out_w.shape[0]):
        for model in range(out_w.shape[1]):
            model_power_w(servers, second, model, levels[model], out_w[second, model])


EXACT_UP_TO = 30
"""Most replicas that are drawn one by one; the default of openg2g's `ITLFitStore`."""


class LatencyFits(NamedTuple):
    """Lognormal mixtures per model and batch level, shape (M, L) throughout, and their moments.

    Attributes:
        mean_s, variance_s2: Of one replica.
        offset_s: Shift of both components.
        steady_weight: Probability of the first component.
        log_scale, sigma: Of the two components, shape (M, L, 2).
    """

    mean_s: Floats
    variance_s2: Floats
    offset_s: Floats
    steady_weight: Floats
    log_scale: Floats
    sigma: Floats


class LatencyDraws(NamedTuple):
    """Random numbers of all seconds: from `start[t, m]` on, what model m needs at second t.

    Attributes:
        start: Shape (T, M).
        normal, uniform: The draws; no uniform is drawn for more than `EXACT_UP_TO` replicas.
    """

    start: Ints
    normal: Floats
    uniform: Floats


@kernel
def draw(state, replicas, start, normal, uniform):  # type: ignore[no-untyped-def]
    """Draw in openg2g's order.

    Args:
        state: The stream's words, moved on, shape (4,).
        replicas: Shape (T, M).
        start, normal, uniform: Room, see `LatencyDraws`.
    """
    filled = 0
    for second in range(replicas.shape[0]):
        for model in range(replicas.shape[1]):
            start[second, model] = filled
            count = replicas[second, model]
            if count > EXACT_UP_TO:
                normal[filled] = next_normal(state)
                filled += 1
                continue
            for _ in range(count):
                uniform[filled] = next_uniform(state)
                normal[filled] = next_normal(state)
                filled += 1


@inlined_kernel
def observe_itl(
    fits: LatencyFits, draws: LatencyDraws, second: int, levels: Ints, replicas: Ints, out_s: Floats
) -> None:
    """Mean latency (s) of every model at its level into `out_s`; NaN without a replica. Levels, replicas and `out_s`
    have shape (M,)."""
    mean_s, variance_s2 = fits.mean_s, fits.variance_s2
    first, normal = draws.start[second], draws.normal
    for model in range(levels.size):
        count, level = replicas[model], levels[model]
        if count > EXACT_UP_TO:
            spread = np.sqrt(max(variance_s2[model, level] / count, 0.0))
            out_s[model] = max(mean_s[model, level] + spread * normal[first[model]], 0.0)
        elif count > 0:
            out_s[model] = _mean_of_few(fits, draws, (model, level), first[model], count)
        else:
            out_s[model] = np.nan


@kernel
def _mean_of_few(fits: LatencyFits, draws: LatencyDraws, where: tuple[int, int], first: int, count: int) -> float:
    """Mean latency (s) over `count` replicas drawn one by one, from draw `first` on, of the (model, level) `where`."""
    values = np.empty(count)
    for i in range(count):
        part = 0 if draws.uniform[first + i] < fits.steady_weight[where] else 1
        log_scale, sigma = fits.log_scale[where][part], fits.sigma[where][part]
        values[i] = fits.offset_s[where] + np.exp(log_scale + sigma * draws.normal[first + i])
    return float(_sum_as_numpy(values) / count)


@kernel
def _sum_as_numpy(values):  # type: ignore[no-untyped-def]
    """Sum of up to 128 values in the order of numpy's pairwise summation: eight at a time, then the rest."""
    n = values.size
    total, done = 0.0, 0
    if n >= 8:
        r = values[:8].copy()
        done = n - n % 8
        for start in range(8, done, 8):
            for lane in range(8):
                r[lane] += values[start + lane]
        total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
    for i in range(done, n):
        total += values[i]
    return total
