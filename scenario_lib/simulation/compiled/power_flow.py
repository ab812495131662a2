"""What single-phase parts of loads draw at a voltage: OpenDSS's load models 1, 2, 4 and 5.

Formulas: OpenDSS technical notes on the load model, checked against its terminal currents at voltages from 0.3 to
1.3 pu. In band: constant power (1), linear active and quadratic reactive power unless told otherwise (4), constant
current magnitude (5). Model 2, constant impedance, cancels against its own admittance and is never in a table.
Below `v_min` the current goes linearly down to that of the nominal impedance at `v_low`, which holds below; above
`v_max` it is that of the impedance which meets the model there.

The power flow of one second: OpenDSS's fixed-point iteration, with the same start, stop and order of events.

V becomes Y^-1 I(V), where Y holds the loads' admittances as of its last rebuild and I what the loads draw beyond
these. Converged when no voltage magnitude changed by more than the tolerance against the iteration before, the
first one being compared with the solution before. Stopping where OpenDSS stops matters: a converged solution differs
from its answer by up to 5e-5 pu, and OFO decisions feel that.

One second of a feeder: set what the variable loads draw, and solve.
"""

from typing import NamedTuple

import numpy as np

from scenario_lib._arrays import Complexes, Floats, Indices, Ints
from scenario_lib.simulation.compiled.jit import inlined_kernel, kernel
from scenario_lib.simulation.compiled.sparse import Sweep, copy_entries, copy_values, factorise, solve_in_place

CONSTANT_POWER, CONSTANT_IMPEDANCE, VOLTAGE_EXPONENTS, CONSTANT_CURRENT = 1, 2, 4, 5
KNOWN_MODELS = (CONSTANT_POWER, CONSTANT_IMPEDANCE, VOLTAGE_EXPONENTS, CONSTANT_CURRENT)


class LoadTable(NamedTuple):
    """Parts of loads between two nodes each, shape (K,) throughout; a tuple, as kernels take no classes.

    Attributes:
        node, return_node: Where the current goes in and out; n means ground.
        model: One of the constants above, never `CONSTANT_IMPEDANCE`.
        base_v: Nominal voltage across the part (V).
        low_v, min_v, max_v: Where the model changes (V).
        min_squared, max_squared: Squares of two of these (V^2).
        watt_exponent, var_exponent: For `VOLTAGE_EXPONENTS`.
    """

    node: Indices
    return_node: Indices
    model: Ints
    base_v: Floats
    low_v: Floats
    min_v: Floats
    max_v: Floats
    min_squared: Floats
    max_squared: Floats
    watt_exponent: Floats
    var_exponent: Floats


@kernel
def draw_currents(
    table: LoadTable, power_va: Complexes, admittance: Complexes, v: Complexes, current_a: Complexes
) -> None:
    """Add to every node's current what Y counts for the parts at it, less what they draw (A).

    Arrays are taken out of their tuple first: passing the tuple on would cost more than all of the arithmetic.

    Args:
        power_va, admittance: Of each part, as drawn and as in Y, shape (K,).
        v: Node voltages (V), ground last, shape (n + 1,).
        current_a: Shape (n + 1,); what is put at ground does not matter.
    """
    node_of, return_of, model, base_v = table.node, table.return_node, table.model, table.base_v
    low_v, min_v, max_v = table.low_v, table.min_v, table.max_v
    min_squared, max_squared = table.min_squared, table.max_squared
    watt_exponent, var_exponent = table.watt_exponent, table.var_exponent
    for k in range(node_of.size):
        node, return_node = node_of[k], return_of[k]
        across = v[node] - v[return_node]
        squared = across.real * across.real + across.imag * across.imag
        watts, negative_vars = power_va[k].real, -power_va[k].imag
        if squared <= min_squared[k] or squared > max_squared[k]:
            scale = _out_of_band(model[k] == CONSTANT_CURRENT, base_v[k], low_v[k], min_v[k], max_v[k], squared)
        elif model[k] == CONSTANT_POWER:
            scale = 1.0 / squared
        elif model[k] == CONSTANT_CURRENT:
            scale = 1.0 / (np.sqrt(squared) * base_v[k])
        else:
            ratio, scale = np.sqrt(squared) / base_v[k], 1.0 / squared
            watts *= _raised(ratio, watt_exponent[k])
            negative_vars *= _raised(ratio, var_exponent[k])
        current = (admittance[k] - complex(watts * scale, negative_vars * scale)) * across
        current_a[node] += current
        current_a[return_node] -= current


@kernel
def _raised(ratio: float, exponent: float) -> float:
    """A power, without the cost of one for OpenDSS's default exponents."""
    if exponent == 1.0:
        return ratio
    return ratio * ratio if exponent == 2.0 else ratio**exponent


@kernel
def _out_of_band(
    constant_current: bool, base_v: float, low_v: float, min_v: float, max_v: float, squared_v: float
) -> float:
    """Factor from conjugate power (VA) to admittance (S) outside min_v to max_v.

    Args:
        constant_current: Whether the part holds its current there, else its power.
        base_v, low_v, min_v, max_v: Of the part, see `LoadTable` (V).
        squared_v: Square of the voltage across it (V^2).
    """
    nominal = 1.0 / (base_v * base_v)
    if squared_v <= low_v * low_v:
        return nominal
    if squared_v > min_v * min_v:
        return nominal * base_v / max_v if constant_current else 1.0 / (max_v * max_v)
    current_low = nominal * low_v
    current_min = nominal * base_v if constant_current else 1.0 / min_v
    voltage = np.sqrt(squared_v)
    return float((current_low + (current_min - current_low) / (min_v - low_v) * (voltage - low_v)) / voltage)


class StopRule(NamedTuple):
    """When a circuit's own solution options end an iteration; these are OpenDSS's defaults.

    Attributes:
        change_pu: Largest change of a voltage magnitude.
    """

    change_pu: float = 1e-4
    max_iterations: int = 15
    min_iterations: int = 2


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
        stop: The circuit's own stop.
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
    stop: StopRule


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
    """How much further than its own stop a circuit is solved; `change_pu` is the largest change of a voltage magnitude.

    The smaller change and the larger number of iterations hold, of these and of the circuit's `StopRule`.
    """

    change_pu: float
    max_iterations: int


OPENDSS = Tolerance(np.inf, 0)
"""The circuit's own stop, where OpenDSS ends; the default."""

ACCURATE = Tolerance(1e-7, 100)
"""Converged for all purposes, at about three times the cost."""


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
    copy_values(network.lower, state.lower)
    copy_values(network.diagonal, state.inverse_diagonal)
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
    """Put an admittance (S) between two nodes, n meaning ground, whose entry in Y is `entry`, or -1."""
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
    n, stop = network.source_a.size, network.stop
    change_pu = min(tolerance.change_pu, stop.change_pu)
    current_a = np.empty(n + 1, np.complex128)
    for iteration in range(1, max(tolerance.max_iterations, stop.max_iterations) + 1):
        copy_values(network.source_a, current_a)
        current_a[n] = 0.0
        draw_currents(network.loads, state.power_va, state.admittance, state.v, current_a)
        sweeps = network.forward, network.backward
        solve_in_place(*sweeps, state.forward, state.backward, state.inverse_diagonal, current_a)
        settled = _take(current_a, state.v, state.magnitude_v, network.base_v, change_pu)
        if settled and iteration >= stop.min_iterations:
            return iteration
    return 0


@kernel
def _take(new_v: Complexes, v: Complexes, magnitude_v: Floats, base_v: Floats, change_pu: float) -> bool:
    """Make the new voltages the present ones; whether no magnitude changed by more than `change_pu`.

    Args:
        new_v, v: Node voltages with ground last (V), shape (n + 1,).
        magnitude_v, base_v: Of the nodes alone (V), shape (n,).
    """
    settled = 0
    for node in range(base_v.size):
        voltage = new_v[node]
        v[node] = voltage
        magnitude = np.sqrt(voltage.real * voltage.real + voltage.imag * voltage.imag)
        # Counting also fails on a voltage that is not a number.
        settled += abs(magnitude - magnitude_v[node]) <= change_pu * base_v[node]
        magnitude_v[node] = magnitude
    return settled == base_v.size


W_PER_KW = 1000.0


class LoadArrays(NamedTuple):
    """Which power goes into which variable load; S sites, E PV systems and time-varying loads.

    Variable loads are the sites' phases A, B, C first, then the parts of each PV system and time-varying load.

    Attributes:
        datacenter_tan: Reactive per active power of datacenters.
        element_kw: Active power per phase, negative for generation (kW), shape (T, E).
        element_tan: Reactive per active power, shape (E,).
        element_of_part: PV system or load that each further part belongs to, shape (V - 3 S,).
    """

    datacenter_tan: float
    element_kw: Floats
    element_tan: Floats
    element_of_part: Ints


@inlined_kernel
def set_powers(network: Network, state: GridState, load_arrays: LoadArrays, second: int, site_power_w: Floats) -> None:
    """Set every variable load's power; site_power_w has shape (S, 3)."""
    part = network.fixed_power_va.size
    for site in range(site_power_w.shape[0]):
        for phase in range(3):
            state.power_va[part] = _power_va(site_power_w[site, phase] / W_PER_KW, load_arrays.datacenter_tan)
            part += 1
    for element in load_arrays.element_of_part:
        state.power_va[part] = _power_va(load_arrays.element_kw[second, element], load_arrays.element_tan[element])
        part += 1


@kernel
def _power_va(kw: float, tan: float) -> complex:
    return complex(kw * W_PER_KW, kw * tan * W_PER_KW)


@inlined_kernel
def solve_second(network, state, load_arrays, second, site_power_w, tolerance, first):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Power flow of one second; the number of iterations, 0 if it did not converge.

    Args:
        load_arrays, second: What PV systems and loads draw, and the row of it.
        site_power_w: Of datacenters (W), shape (S, 3).
        first: Whether to rebuild Y, since elements were added after the circuit was compiled.
    """
    set_powers(network, state, load_arrays, second, site_power_w)
    if first:
        rebuild_admittance(network, state)
    return solve_power_flow(network, state, tolerance)


@inlined_kernel
def record_voltages(network: Network, state: GridState, out_pu: Floats) -> None:
    """Voltages of the recorded bus-phases (pu) into `out_pu`, shape (N,)."""
    for i in range(network.recorded.size):
        node = network.recorded[i]
        out_pu[i] = state.magnitude_v[node] / network.base_v[node]


@inlined_kernel
def distances_outside(voltage_pu: float, v_min_pu: float, v_max_pu: float) -> tuple[float, float]:
    """How far a voltage is below and above the limits (pu), as `metrics.voltage` has it; 0 where it is not."""
    below = v_min_pu - voltage_pu if voltage_pu < v_min_pu else 0.0
    above = voltage_pu - v_max_pu if voltage_pu > v_max_pu else 0.0
    return below, above
