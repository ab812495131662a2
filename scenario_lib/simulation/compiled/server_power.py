"""What a model's servers draw in one second: openg2g's numbers to the last bit, as it adds them up.

A server draws its template value times its GPUs and its own amplitude, plus noise in proportion, never less than 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LEAST_NOISE_BASE_W = 1.0


class Servers(NamedTuple):
    """Servers of all sites together; T seconds, M deployed models, L batch levels, R servers.

    Attributes:
        templates_w: Power of one GPU over the template (W), shape (M, L, longest template).
        template_s: Length of each model's templates (s), shape (M,).
        gpus: GPUs per server.
        amplitude: Multiplier of each server, shape (R,).
        stagger_s: Shift of each server within the template (s), shape (R,).
        noise: Standard normals times the noise fraction, shape (T, R).
        allocated: Servers of all allocations, model by model and phase by phase.
        first, phase_count: Where each model's servers begin in `allocated`, and how many it has on each phase, at
            every second, shapes (T, M) and (T, M, 3).
    """

    templates_w: Floats
    template_s: Ints
    gpus: float
    amplitude: Floats
    stagger_s: Ints
    noise: Floats
    allocated: Ints
    first: Ints
    phase_count: Ints


@kernel
def model_power_w(servers: Servers, second: int, model: int, level: int, out_w: Floats) -> None:
    """Power of one model on each phase (W) into `out_w`, shape (3,)."""
    template_w, length = servers.templates_w[model, level], servers.template_s[model]
    noise = servers.noise[second]
    now = second % length
    p = servers.first[second, model]
    for phase in range(3):
        total = 0.0
        for _ in range(servers.phase_count[second, model, phase]):
            server = servers.allocated[p]
            p += 1
            sample = now + servers.stagger_s[server]
            if sample >= length:
                sample %= length
            power = template_w[sample] * servers.gpus * servers.amplitude[server]
            power += noise[server] * max(power, _LEAST_NOISE_BASE_W)
            total += max(power, 0.0)
        out_w[phase] = total


@kernel
def fill_model_power(servers: Servers, levels: Ints, out_w: Floats) -> None:
    """Power of every model at one level each, all seconds: out_w has shape (T, M, 3)."""
    for second in range(out_w.shape[0]):
        for model in range(out_w.shape[1]):
            model_power_w(servers, second, model, levels[model], out_w[second, model])
