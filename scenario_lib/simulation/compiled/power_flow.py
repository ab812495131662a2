"""The power flow of one second: OpenDSS's fixed-point iteration, with the same start, stop and order of events.

V becomes Y^-1 I(V), where Y holds the loads' admittances as of its last rebuild and I what the loads draw beyond
these. Converged when no voltage magnitude changed by more than the tolerance against the iteration before, the
first one being compared with the solution before. Stopping where OpenDSS stops matters: a converged solution differs
from its answer by up to 5e-5 pu, and OFO decisions feel that.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.factor import Sweep, copy_entries, factorise, solve_in_place
from scenario_lib.simulation.compiled.kernels import kernel
from scenario_lib.simulation.compiled.load_currents import LoadTable, draw_currents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Complexes = NDArray[np.complex128]


class Network(NamedTuple):
    """A circuit in elimination order: n nodes, m entries of the factor, K load parts, N recorded bus-phases.

    Attributes:
        column_start, rows, targets, target_start: Pattern of the factor, see `ordering.Pattern`.
        forward, backward: The factor's entries as solutions take them; forward, only columns that currents of sources
            and loads reach.
        rebuilt: Columns that admittances of variable loads reach.
        lower, diagonal: Y without variable loads (S), columns other than `rebuilt` eliminated, shapes (m,) and (n,).
        source_a: Current injected by the sources (A), shape (n,).
        base_v: Voltage base of each node, line to neutral (V), shape (n,).
        loads: All load parts that draw a current; the first K - V are fixed, the last V variable.
        fixed_power_va, fixed_admittance: Of the fixed parts, shape (K - V,).
        off_diagonal: Entry between the nodes of each variable part, -1 if one is ground, shape (V,).
        recorded: Node of each recorded bus-phase, shape (N,).
        start_v: Voltages of the circuit as compiled (V), ground last, shape (n + 1,).
    """

    column_start: Ints
    rows: Ints
    targets: Ints
    target_start: Ints
    forward: Sweep
    backward: Sweep
    rebuilt: Ints
    lower: Complexes
    diagonal: Complexes
    source_a: Complexes
    base_v: Floats
    loads: LoadTable
    fixed_power_va: Complexes
    fixed_admittance: Complexes
    off_diagonal: Ints
    recorded: Ints
    start_v: Complexes


class GridState(NamedTuple):
    """What changes from one solution to the next.

    Attributes:
        v: Node voltages (V), ground last, shape (n + 1,).
        magnitude_v: Their magnitudes at the last iteration, shape (n,).
        power_va: Power of each load part, shape (K,).
        admittance: Admittance of each load part within Y, shape (K,).
        lower, inverse_diagonal: Factor of Y, shapes (m,) and (n,).
        forward, backward: Its entries in the order of the sweeps.
    """

    v: Complexes
    magnitude_v: Floats
    power_va: Complexes
    admittance: Complexes
    lower: Complexes
    inverse_diagonal: Complexes
    forward: Complexes
    backward: Complexes


class Tolerance(NamedTuple):
    """When to stop: `change_pu` is the largest change of a voltage magnitude."""

    change_pu: float
    max_iterations: int


OPENDSS = Tolerance(1e-4, 15)
"""OpenDSS's own stop; the default."""

ACCURATE = Tolerance(1e-7, 100)
"""Converged for all purposes, at about three times the cost."""

MIN_ITERATIONS = 2


@kernel
def rebuild_admittance(network: Network, state: GridState) -> None:
    """Refresh every variable load's admittance at its present power, and factorise Y with them."""
    base_v = network.loads.base_v
    for k in range(network.fixed_power_va.size, base_v.size):
        scale = 1.0 / (base_v[k] * base_v[k])
        state.admittance[k] = complex(state.power_va[k].real * scale, -state.power_va[k].imag * scale)
    factorise_admittance(network, state)


@kernel
def factorise_admittance(network: Network, state: GridState) -> None:
    """Factorise Y with the variable loads' admittances as they are in the state."""
    state.lower[:] = network.lower
    state.inverse_diagonal[:] = network.diagonal
    loads, n_fixed = network.loads, network.fixed_power_va.size
    for k in range(n_fixed, loads.node.size):
        entry = network.off_diagonal[k - n_fixed]
        _add_between(state, loads.node[k], loads.return_node[k], entry, state.admittance[k])
    pattern = network.column_start, network.targets, network.target_start
    factorise(*pattern, network.rebuilt, state.lower, state.inverse_diagonal)
    copy_entries(state.lower, network.forward, state.forward)
    copy_entries(state.lower, network.backward, state.backward)


@kernel
def _add_between(state: GridState, node: int, return_node: int, entry: int, admittance: complex) -> None:
    n = state.inverse_diagonal.size
    if node < n:
        state.inverse_diagonal[node] += admittance
    if return_node < n:
        state.inverse_diagonal[return_node] += admittance
    if entry >= 0:
        state.lower[entry] -= admittance


@kernel
def solve_power_flow(network: Network, state: GridState, tolerance: Tolerance) -> int:
    """Iterate from the present voltages; the number of iterations, or 0 if the power flow did not converge."""
    n = network.source_a.size
    current_a = np.empty(n + 1, np.complex128)
    for iteration in range(1, tolerance.max_iterations + 1):
        current_a[:n] = network.source_a
        current_a[n] = 0.0
        draw_currents(network.loads, state.power_va, state.admittance, state.v, current_a)
        sweeps = network.forward, network.backward
        solve_in_place(*sweeps, state.forward, state.backward, state.inverse_diagonal, current_a)
        settled = _take(current_a, state.v, state.magnitude_v, network.base_v, tolerance.change_pu)
        if settled and iteration >= MIN_ITERATIONS:
            return iteration
    return 0


@kernel
def _take(new_v: Complexes, v: Complexes, magnitude_v: Floats, base_v: Floats, change_pu: float) -> bool:
    """Make the new voltages the present ones; whether no magnitude changed by more than `change_pu`."""
    settled = 0
    for node in range(base_v.size):
        voltage = new_v[node]
        v[node] = voltage
        magnitude = np.sqrt(voltage.real * voltage.real + voltage.imag * voltage.imag)
        # Counting also fails on a voltage that is not a number.
        settled += abs(magnitude - magnitude_v[node]) <= change_pu * base_v[node]
        magnitude_v[node] = magnitude
    return settled == base_v.size
