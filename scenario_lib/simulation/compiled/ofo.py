"""openg2g's Online Feedback Optimization of batch sizes, as kernels.

A primal-dual method in x = log2(batch size): duals rise with voltage violations and late tokens, and x descends the
Lagrangian. One controller per site; each has its own duals and its own sensitivity.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel

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
    """

    power: Floats
    latency: Floats
    throughput: Floats
    throughput_max: Floats
    itl_deadline_s: Floats
    batch_sizes: Ints
    n_levels: Ints


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


@kernel
def update_voltage_duals(settings: OFOSettings, state: OFOState, site: int, voltages_pu: Floats) -> Floats:
    """Raise or lower the site's voltage duals; returns the dual difference times the sensitivity, shape (3,)."""
    weighted = np.zeros(3)
    rho = settings.voltage_dual_step_size
    for i in range(voltages_pu.size):
        under = max(state.under_dual[site, i] + rho * (settings.v_min - voltages_pu[i]), 0.0)
        over = max(state.over_dual[site, i] + rho * (voltages_pu[i] - settings.v_max), 0.0)
        state.under_dual[site, i], state.over_dual[site, i] = under, over
        difference = over - under
        if difference != 0.0:
            for phase in range(3):
                weighted[phase] += difference * state.sensitivity[site, i, phase]
    return weighted


@kernel
def update_latency_dual(settings: OFOSettings, models: OFOModels, state: OFOState, model: int, itl_s: float) -> None:
    """Raise or lower one model's latency dual; a model without replicas has a latency of NaN and keeps its own."""
    dual = state.latency_dual[model]
    if np.isfinite(itl_s):
        dual += settings.latency_dual_step_size * (itl_s - models.itl_deadline_s[model])
    state.latency_dual[model] = max(dual, 0.0)


@kernel
def _slope(fit: Floats, x: float) -> float:
    """Derivative of a logistic fit (L, x0, k) with respect to x."""
    argument = fit[2] * (x - fit[1])
    if argument >= 0:
        share = 1.0 / (1.0 + np.exp(-argument))
    else:
        growth = np.exp(argument)
        share = growth / (1.0 + growth)
    return fit[0] * (fit[2] * share * (1.0 - share))


@kernel
def primal_step(
    settings: OFOSettings, models: OFOModels, state: OFOState, model: int, voltage_gradient: float, replicas: float
) -> int:
    """Move one model's x against its gradient; returns the level of the nearest feasible batch size."""
    x, previous = state.x[model], state.previous_x[model]
    gradient = -settings.w_throughput * (replicas * (_slope(models.throughput[model], x) / models.throughput_max[model]))
    gradient += settings.voltage_gradient_scale * voltage_gradient * (replicas * (_slope(models.power[model], x) / 1000.0))
    gradient += state.latency_dual[model] * _slope(models.latency[model], x)
    gradient += settings.w_switch * (x - previous)
    batch_sizes = models.batch_sizes[model, : models.n_levels[model]]
    lowest, highest = np.log2(float(batch_sizes[0])), np.log2(float(batch_sizes[-1]))
    state.previous_x[model] = x
    state.x[model] = min(max(x - settings.primal_step_size * gradient, lowest), highest)
    return _nearest(batch_sizes, 2.0 ** state.x[model])


@kernel
def _nearest(batch_sizes: Ints, wanted: float) -> int:
    """Position of the nearest value in a rising array, the smaller one of two equally near."""
    above = 0
    while above < batch_sizes.size and batch_sizes[above] < wanted:
        above += 1
    if above == 0:
        return 0
    if above == batch_sizes.size or wanted - batch_sizes[above - 1] <= batch_sizes[above] - wanted:
        return above - 1
    return above
