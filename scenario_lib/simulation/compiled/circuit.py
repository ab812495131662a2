"""The circuit of one experiment as a `Network` in the order of elimination, read after the reference engine's start-up.

Everything but variable loads (datacenters, PV systems, time-varying loads) stands still in a rollout, so a circuit is
read once per process and experiment. It serves every scenario whose elements are at the same buses. Whatever was read
is held against OpenDSS's own solution before it is used.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from openg2g.grid.opendss import dss
from scipy.sparse.linalg import splu

from scenario_lib._arrays import Ints
from scenario_lib.errors import NotModelledError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.compiled.circuit_reader import (
    LoadPart,
    RawCircuit,
    is_symmetric,
    read_circuit,
    refuse_what_is_not_modelled,
    voltages_by_node,
    what_is_not_modelled,
)
from scenario_lib.simulation.compiled.power_flow import (
    OPENDSS,
    GridState,
    LoadTable,
    Network,
    rebuild_admittance,
    solve_power_flow,
)
from scenario_lib.simulation.compiled.sparse import Pattern, Sweep, analyse, factorise
from scenario_lib.simulation.opendss.engine import opendss_held
from scenario_lib.simulation.opendss.grid import ScenarioGrid


def _assemble_network(
    raw: RawCircuit, start_v: dict[str, complex], recorded: list[str], variable_loads: list[str]
) -> tuple[Network, tuple[str, ...]]:
    """The circuit as a `Network`, and the names of its nodes in elimination order.

    Args:
        start_v: Voltages before the first second, by node name (V).
        recorded: Names of the nodes to record, such as "650.1".
        variable_loads: Lower-case names of the loads that change, in the order of their parts.
    """
    by_name = {part.name.lower(): part for part in raw.parts}
    variable = [by_name[name] for name in variable_loads]
    fixed = [part for part in raw.parts if part.name.lower() not in set(variable_loads)]
    pattern = analyse(_neighbours(raw, variable))
    place = np.empty(len(pattern.order), np.int64)
    place[pattern.order] = np.arange(len(place))
    network = _network(raw, pattern, _renumbered(fixed, place), _renumbered(variable, place))
    names = tuple(raw.nodes[i] for i in pattern.order)
    position = {name: i for i, name in enumerate(names)}
    network = network._replace(
        recorded=np.array([position[name] for name in recorded], np.int64),
        start_v=np.array([*(start_v[name] for name in names), 0.0]),
    )
    return network, names


def _neighbours(raw: RawCircuit, variable: list[LoadPart]) -> list[set[int]]:
    rows, starts = raw.admittance.indices, raw.admittance.indptr  # of columns, but Y is symmetric
    near = [set(rows[start:stop].tolist()) - {i} for i, (start, stop) in enumerate(pairwise(starts))]
    for part in variable:
        if part.node is not None and part.return_node is not None:
            near[part.node].add(part.return_node)
            near[part.return_node].add(part.node)
    return near


def _renumbered(parts: list[LoadPart], place: np.ndarray) -> list[LoadPart]:
    """The same parts with nodes in elimination order, ground being the number of nodes."""

    def at(node: int | None) -> int:
        return len(place) if node is None else int(place[node])

    return [replace(part, node=at(part.node), return_node=at(part.return_node)) for part in parts]


def _network(raw: RawCircuit, pattern: Pattern, fixed: list[LoadPart], variable: list[LoadPart]) -> Network:
    n = len(pattern.order)
    source_a = raw.source_a[pattern.order]
    rebuilt = pattern.reach(_nodes(variable, n))
    driven = _nodes([*fixed, *variable], n) | set(np.flatnonzero(source_a).tolist())
    lower, diagonal = _values(raw, pattern)
    unchanged = np.setdiff1d(np.arange(n), rebuilt)
    factorise(pattern.column_start, pattern.targets, pattern.target_start(), unchanged, lower, diagonal)
    return Network(
        column_start=pattern.column_start,
        rows=pattern.rows,
        targets=pattern.targets,
        target_start=pattern.target_start(),
        forward=_forward(pattern, pattern.reach(driven)),
        backward=_backward(pattern),
        rebuilt=rebuilt,
        lower=lower,
        diagonal=diagonal,
        source_a=source_a,
        base_v=raw.base_v[pattern.order],
        loads=load_table([*fixed, *variable]),
        fixed_power_va=np.array([part.power_va for part in fixed], complex),
        fixed_admittance=np.array([part.power_va.conjugate() / part.base_v**2 for part in fixed], complex),
        off_diagonal=np.array([_entry_between(pattern, part) for part in variable], np.int64),
        recorded=np.zeros(0, np.int64),
        start_v=np.zeros(0, complex),
        stop=raw.stop,
    )


def _entry_between(pattern: Pattern, part: LoadPart) -> int:
    """Entry of Y between a part's two nodes; -1 if one is ground."""
    ground = len(pattern.order)
    if part.node in (None, ground) or part.return_node in (None, ground):
        return -1
    return pattern.entry(part.node, part.return_node)


def _nodes(parts: list[LoadPart], ground: int) -> set[int]:
    return {node for part in parts for node in (part.node, part.return_node) if node is not None and node != ground}


def _forward(pattern: Pattern, columns: Ints) -> Sweep:
    entries = np.flatnonzero(np.isin(pattern.columns(), columns))
    return _sweep(pattern.rows[entries], pattern.columns()[entries], entries)


def _backward(pattern: Pattern) -> Sweep:
    entries = np.lexsort((pattern.columns(), -pattern.rows))
    return _sweep(pattern.columns()[entries], pattern.rows[entries], entries)


def _sweep(target: Ints, source: Ints, entry: Ints) -> Sweep:
    return Sweep(target.astype(np.uint32), source.astype(np.uint32), entry.astype(np.uint32))


def _values(raw: RawCircuit, pattern: Pattern) -> tuple[np.ndarray, np.ndarray]:
    """Y at the entries of the factor, zero where it fills in, and its diagonal, both in elimination order."""
    n = len(pattern.order)
    given = raw.admittance.tocoo()
    known = given.col.astype(np.int64) * n + given.row  # rising, as columns are and rows within them
    wanted = pattern.order[pattern.columns()] * n + pattern.order[pattern.rows]
    found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    lower = np.where(known[found] == wanted, given.data[found], 0)
    return lower, raw.admittance.diagonal()[pattern.order]


def load_table(parts: list[LoadPart]) -> LoadTable:
    """Load parts, with nodes in elimination order, as a table for the kernels."""
    base_v = np.array([part.base_v for part in parts])
    # A part whose `min` lies below its `low` leaves its band at `low` already.
    min_v = base_v * [max(part.min_pu, part.low_pu) for part in parts]
    max_v = base_v * [part.max_pu for part in parts]
    return LoadTable(
        node=np.array([part.node for part in parts], np.uint32),
        return_node=np.array([part.return_node for part in parts], np.uint32),
        model=np.array([part.model for part in parts], np.int64),
        base_v=base_v,
        low_v=base_v * [part.low_pu for part in parts],
        min_v=min_v,
        max_v=max_v,
        min_squared=min_v**2,
        max_squared=max_v**2,
        watt_exponent=np.array([part.watt_exponent for part in parts]),
        var_exponent=np.array([part.var_exponent for part in parts]),
    )


def start_state(network: Network) -> GridState:
    """The state before the first second: voltages as compiled, variable loads at zero, Y not yet factorised."""
    n, n_loads = network.source_a.size, network.loads.node.size
    n_fixed = network.fixed_power_va.size
    power, admittance = np.zeros(n_loads, complex), np.zeros(n_loads, complex)
    power[:n_fixed], admittance[:n_fixed] = network.fixed_power_va, network.fixed_admittance
    return GridState(
        v=network.start_v.copy(),
        magnitude_v=np.abs(network.start_v[:n]),
        power_va=power,
        admittance=admittance,
        lower=network.lower.copy(),
        inverse_diagonal=network.diagonal.copy(),
        forward=np.zeros(network.forward.entry.size, complex),
        backward=np.zeros(network.backward.entry.size, complex),
    )


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit and what its variable loads are.

    Attributes:
        bus_phases: The N recorded (bus, phase) pairs.
        node_names: Names such as "650.1" in elimination order.
        groups: For each datacenter phase, then each PV system and time-varying load, the number of its load parts.
        agreement_pu: How far from OpenDSS's its voltages may be by rounding.
    """

    network: Network
    bus_phases: tuple[tuple[str, int], ...]
    node_names: tuple[str, ...]
    groups: tuple[int, ...]
    agreement_pu: float


@dataclass(frozen=True)
class _Datacenter:
    """As much of a datacenter as a grid needs to know before it starts."""

    name: str


def read_network(scenario: Scenario, experiment: Experiment) -> Circuit:
    """Start OpenDSS on the experiment's feeder with the scenario's elements and turn the circuit into arrays.

    Raises:
        NotModelledError: The circuit has something that the compiled engine does not model.
        PowerFlowError: OpenDSS does not converge at start-up.
    """
    grid = ScenarioGrid(experiment.feeder, scenario, 1)
    for site in scenario.sites:
        grid.attach_dc(
            _Datacenter(site.name),
            bus=site.bus,
            connection_type=site.connection_type,
            power_factor=experiment.datacenter.power_factor,
        )
    with opendss_held():
        return _read(grid)


def _read(grid: ScenarioGrid) -> Circuit:
    grid.start()
    groups = grid.load_groups
    bus_phases = tuple((str(bus), int(phase)) for bus, phase in grid.v_index)
    return _read_active(bus_phases, groups)


def why_not_modelled() -> tuple[str, ...]:
    """What would keep a build on the active circuit, solved and without datacenters, from the compiled engine.

    Decided as in a build: by name, and else by holding a solution against OpenDSS's.
    """
    found = what_is_not_modelled()
    if found:
        return found
    try:
        _read_active((), [])
    except NotModelledError as error:
        return (error.what,)
    return ()


def _read_active(bus_phases: tuple[tuple[str, int], ...], groups: list[tuple[str, ...]]) -> Circuit:
    start_v = voltages_by_node()
    dss.Solution.SolveNoControl()  # gives the added elements their nodes; a step from `start_v`, compared below
    refuse_what_is_not_modelled()
    raw = read_circuit()
    if not is_symmetric(raw.admittance):
        raise NotModelledError("an admittance matrix that is not symmetric")
    recorded = [f"{bus.lower()}.{phase}" for bus, phase in bus_phases]
    network, names = _assemble_network(raw, start_v, recorded, [name.lower() for group in groups for name in group])
    agreement_pu = _agreement_of(raw, voltages_by_node())
    circuit = Circuit(network, bus_phases, names, tuple(len(group) for group in groups), agreement_pu)
    _check_against_opendss(circuit)
    return circuit


def _agreement_of(raw: RawCircuit, solution_v: dict[str, complex]) -> float:
    """The largest voltage difference of the engines (pu) that rounding may explain.

    Currents computed from a solution, and voltages from these, come back with the rounding errors of the circuit: a
    stiff source beside short lines costs digits whichever way it is solved.
    """
    v = np.array([solution_v[name] for name in raw.nodes])
    rounding_pu = np.max(np.abs(splu(raw.admittance).solve(raw.admittance @ v) - v) / raw.base_v)
    return float(min(max(AGREEMENT_PU, _ROUNDINGS * rounding_pu), _LARGEST_AGREEMENT_PU))


def _check_against_opendss(circuit: Circuit) -> None:
    """Make the solution that OpenDSS has just made, from the same voltages: whatever was misread shows here."""
    state = start_state(circuit.network)
    rebuild_admittance(circuit.network, state)
    iterations = solve_power_flow(circuit.network, state, OPENDSS)
    theirs = voltages_by_node()
    ours = state.v[:-1]
    distance = np.abs(ours - [theirs[name] for name in circuit.node_names]) / circuit.network.base_v
    worst = int(np.argmax(distance))
    if not distance[worst] <= circuit.agreement_pu or iterations != dss.Solution.Iterations():
        raise NotModelledError(
            f"something of this circuit (the voltage at {circuit.node_names[worst]} is {distance[worst]:.1e} pu "
            f"off OpenDSS's after {iterations} and {dss.Solution.Iterations()} iterations)"
        )


AGREEMENT_PU = 5e-8
"""Largest voltage difference of the engines that is accepted of every circuit."""
_ROUNDINGS, _LARGEST_AGREEMENT_PU = 10.0, 1e-5
"""Of rounding as measured, the engines' may be so many times it, up to a tenth of what OpenDSS iterates to."""
