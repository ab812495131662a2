"""What a model's servers draw in one second: openg2g's numbers to the last bit, as it adds them up.

A server draws its template value times its GPUs and its own amplitude, plus noise in proportion, never less than 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.uint32]

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
    """Power of one model on each phase (W) into `out_w`, shape (3,)."""
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
    """Power of each allocated server (W). A loop without branches, so that several servers are done at a time."""
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
