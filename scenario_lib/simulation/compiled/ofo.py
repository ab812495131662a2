"""openg2g's Online Feedback Optimization of batch sizes, as kernels.

A primal-dual method in x = log2(batch size): duals rise with voltage violations and late tokens, and x descends the
Lagrangian. One controller per site; each has its own duals and its own sensitivity.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import inlined_kernel, kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class OFOSettings(NamedTuple):
    """Tuning; the names are those of openg2g's `OFOConfig`."""

    primal_step_size: float
    w_throughput: float
    w_switch: float
    voltage_gradient_scale: float
    v_min: float
    v_max: float
    voltage_dual_step_size: float
    latency_dual_step_size: float
    sensitivity_update_interval: int
    sensitivity_perturbation_kw: float


class OFOModels(NamedTuple):
    """What the controller knows of the M deployed models.

    Attributes:
        power, latency, throughput: Logistic fits (L, x0, k) over log2(batch size), shape (M, 3); power in W.
        throughput_max: Throughput at the site's largest batch size, shape (M,).
        itl_deadline_s: Shape (M,).
        batch_sizes: Feasible sizes of each model's site, rising, shape (M, L).
        n_levels: How many of them, shape (M,).
        lowest_x, highest_x: log2 of the first and last of them, shape (M,).
    """

    power: Floats
    latency: Floats
    throughput: Floats
    throughput_max: Floats
    itl_deadline_s: Floats
    batch_sizes: Ints
    n_levels: Ints
    lowest_x: Floats
    highest_x: Floats


class OFOState(NamedTuple):
    """What the controllers remember; S sites, M models, N bus-phases.

    Attributes:
        x, previous_x: log2 of the continuous batch size, and that of the step before, shape (M,).
        latency_dual: Shape (M,).
        under_dual, over_dual: Shape (S, N).
        sensitivity: dV/dP (pu per kW), shape (S, N, 3).
    """

    x: Floats
    previous_x: Floats
    latency_dual: Floats
    under_dual: Floats
    over_dual: Floats
    sensitivity: Floats


@inlined_kernel
def update_voltage_duals(
    settings: OFOSettings, state: OFOState, site: int, voltages_pu: Floats
) -> tuple[float, float, float]:
    """Raise or lower the site's voltage duals; returns the dual difference times the sensitivity of each phase."""
    under, over, sensitivity = state.under_dual[site], state.over_dual[site], state.sensitivity[site]
    a, b, c = 0.0, 0.0, 0.0
    if _raise_or_lower(under, over, voltages_pu, settings.voltage_dual_step_size, settings.v_min, settings.v_max):
        for i in range(voltages_pu.size):
            difference = over[i] - under[i]
            if difference != 0.0:
                a += difference * sensitivity[i, 0]
                b += difference * sensitivity[i, 1]
                c += difference * sensitivity[i, 2]
    return a, b, c


@inlined_kernel
def _raise_or_lower(under, over, voltages_pu, rho, v_min, v_max):  # type: ignore[no-untyped-def]
    """One step of both duals; how many are not zero. Without branches, so that several are done at a time."""
    raised = 0
    for i in range(voltages_pu.size):
        below = under[i] + rho * (v_min - voltages_pu[i])
        above = over[i] + rho * (voltages_pu[i] - v_max)
        under[i] = below if below > 0.0 else 0.0
        over[i] = above if above > 0.0 else 0.0
        raised += (below > 0.0) | (above > 0.0)
    return raised


@inlined_kernel
def _slope(scale: float, x0: float, k: float, x: float) -> float:
    """Derivative of the logistic curve b0 + scale / (1 + exp(-k (x - x0)))."""
    argument = k * (x - x0)
    decay = np.exp(-abs(argument))
    share = (1.0 if argument >= 0 else decay) / (1.0 + decay)
    return float(scale * (k * share * (1.0 - share)))


@inlined_kernel
def primal_step(settings, models, state, voltage_gradient, itl_s, replicas, levels):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Update every model's latency dual, move its x against its gradient, and put the level of the nearest batch size
    into `levels`.

    Args:
        voltage_gradient: Dual difference times sensitivity times phase share, shape (M,).
        itl_s: Observed latency, NaN without replicas, which leaves the dual as it is; shape (M,).
        replicas: Active replicas, shape (M,).
    """
    xs, previous_xs, duals = state.x, state.previous_x, state.latency_dual
    power, latency, throughput = models.power, models.latency, models.throughput
    for model in range(xs.size):
        x, count = xs[model], float(replicas[model])
        dual = duals[model]
        if np.isfinite(itl_s[model]):
            dual += settings.latency_dual_step_size * (itl_s[model] - models.itl_deadline_s[model])
        duals[model] = dual = max(dual, 0.0)
        slope = _slope(throughput[model, 0], throughput[model, 1], throughput[model, 2], x)
        gradient = -settings.w_throughput * (count * (slope / models.throughput_max[model]))
        slope = _slope(power[model, 0], power[model, 1], power[model, 2], x)
        gradient += settings.voltage_gradient_scale * voltage_gradient[model] * (count * (slope / 1000.0))
        gradient += dual * _slope(latency[model, 0], latency[model, 1], latency[model, 2], x)
        gradient += settings.w_switch * (x - previous_xs[model])
        previous_xs[model] = x
        x = min(max(x - settings.primal_step_size * gradient, models.lowest_x[model]), models.highest_x[model])
        xs[model] = x
        levels[model] = nearest_size(models.batch_sizes[model], models.n_levels[model], 2.0**x)


@kernel
def nearest_size(batch_sizes: Ints, n: int, wanted: float) -> int:
    """Position of the nearest of the first n values of a rising array, the smaller one of two equally near."""
    above = 0
    while above < n and batch_sizes[above] < wanted:
        above += 1
    if above == 0:
        return 0
    if above == n or wanted - batch_sizes[above - 1] <= batch_sizes[above] - wanted:
        return above - 1
    return above
