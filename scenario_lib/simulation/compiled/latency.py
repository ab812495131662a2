"""Observed inter-token latency: the mean of a fleet, from random numbers drawn beforehand.

What is drawn depends on replica counts only, never on the batch size, so one set of draws serves every rollout. More
than 30 replicas take one normal per second; fewer take a uniform and a normal for each replica, and their values are
averaged as numpy averages a short list.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import inlined_kernel, kernel
from scenario_lib.simulation.compiled.random_stream import next_normal, next_uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
    """Draw for replica counts of shape (T, M), in openg2g's order, into `start`, `normal` and `uniform`."""
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
    """Mean latency (s) of every model at its level into `out_s`, shape (M,); NaN without a replica."""
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
    """Mean over replicas drawn one by one, from draw `first` on."""
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
