"""One second of many scenarios at once, each with batch sizes from outside and at a second of its own.

Scenarios share a circuit and nothing else: threads take whole scenarios, so that their number changes no bit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import inlined_kernel, kernel
from scenario_lib.simulation.compiled.latency import LatencyDraws, observe_itl
from scenario_lib.simulation.compiled.power_flow import GridState
from scenario_lib.simulation.compiled.second import Feeding, record_voltages, solve_second
from scenario_lib.simulation.compiled.server_power import Servers, model_power_w

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Complexes = NDArray[np.complex128]


class FleetTables(NamedTuple):
    """Tables of N scenarios over the same T seconds, from `first_second` on; see `Plant` and `Feeding`.

    Attributes:
        model_power_w: Power of each model at each batch level and phase (W), shape (N, T, M, L, 3).
        training_w: Per phase, shape (N, runs, T).
        element_kw: Shape (N, T, E).
        active_replicas: Shape (N, T, M).
        draw_start, normal, uniform: Latency draws, shapes (N, T, M), (N, longest), (N, longest).
        base_w: Shape (N, S).
        site_of_model, datacenter_tan, element_tan, element_of_part: The same for all.
    """

    first_second: int
    model_power_w: Floats
    training_w: Floats
    element_kw: Floats
    active_replicas: Ints
    draw_start: Ints
    normal: Floats
    uniform: Floats
    base_w: Floats
    site_of_model: Ints
    datacenter_tan: float
    element_tan: Floats
    element_of_part: Ints


class Observed(NamedTuple):
    """What a step leaves behind, N scenarios.

    Attributes:
        voltages_pu: Shape (N, bus-phases).
        power_w: Shape (N, S, 3).
        itl_s: Shape (N, M).
        iterations: Of the power flow, 0 where it did not converge; shape (N,).
    """

    voltages_pu: Floats
    power_w: Floats
    itl_s: Floats
    iterations: Ints


@kernel
def fill_power_table(servers: Servers, first_second: int, n_levels: Ints, out_w: Floats) -> None:
    """Power of every model at every level: out_w has shape (T, M, L, 3). Unused levels stay as they are."""
    for t in range(out_w.shape[0]):
        for model in range(out_w.shape[1]):
            for level in range(n_levels[model]):
                model_power_w(servers, first_second + t, model, level, out_w[t, model, level])


@kernel
def step_scenarios(network, states, tables, fits, seconds, levels, tolerance, observed):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Solve one second of every scenario.

    Args:
        states: A `GridState` of stacked arrays, one more axis of N in front.
        fits: Latency fits, the same for all scenarios.
        seconds: Second of each scenario, advanced by one; shape (N,).
        levels: Batch level of each model, shape (N, M).
        observed: Filled in.
    """
    for i in range(seconds.size):
        _step(network, states, tables, fits, i, seconds[i], levels[i], tolerance, observed)
        seconds[i] += 1


@inlined_kernel
def _step(network, states, tables, fits, i, second, levels, tolerance, observed):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    state = state_of(states, i)
    t = second - tables.first_second
    looked_up_powers(tables, i, t, levels, observed.power_w[i])
    draws = LatencyDraws(tables.draw_start[i], tables.normal[i], tables.uniform[i])
    observe_itl(fits, draws, t, levels, tables.active_replicas[i, t], observed.itl_s[i])
    kw = tables.element_kw[i, t : t + 1]
    feeding = Feeding(tables.datacenter_tan, kw, tables.element_tan, tables.element_of_part)
    observed.iterations[i] = solve_second(network, state, feeding, 0, observed.power_w[i], tolerance, second == 0)
    record_voltages(network, state, observed.voltages_pu[i])


@inlined_kernel
def state_of(states: GridState, i: int) -> GridState:
    """State of one scenario, sharing memory with the stack."""
    return GridState(
        states.v[i],
        states.magnitude_v[i],
        states.power_va[i],
        states.admittance[i],
        states.lower[i],
        states.inverse_diagonal[i],
        states.forward[i],
        states.backward[i],
    )


@inlined_kernel
def looked_up_powers(tables, i, t, levels, out_w):  # type: ignore[no-untyped-def]
    """As `loops.site_powers`, with every model's power looked up."""
    power_w, site_of_model = tables.model_power_w[i, t], tables.site_of_model
    out_w[:] = 0.0
    for model in range(levels.size):
        for phase in range(3):
            out_w[site_of_model[model], phase] += power_w[model, levels[model], phase]
    for site in range(out_w.shape[0]):
        for phase in range(3):
            out_w[site, phase] = tables.base_w[i, site] + out_w[site, phase]
    for run in range(tables.training_w.shape[1]):
        for phase in range(3):
            out_w[0, phase] += tables.training_w[i, run, t]
