"""The circuit of one experiment as a `Network`, read from OpenDSS after the reference engine's start-up.

Everything but variable loads (datacenters, PV systems, time-varying loads) stands still in a rollout, so a circuit is
read once per process and experiment. It serves every scenario whose elements are at the same buses.
"""

from dataclasses import dataclass

import numpy as np
from openg2g.grid.opendss import dss

from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.agreement import AGREEMENT_PU
from scenario_lib.simulation.compiled.assemble import assemble_network, start_state
from scenario_lib.simulation.compiled.errors import NotModelledError
from scenario_lib.simulation.compiled.power_flow import OPENDSS, Network, rebuild_admittance, solve_power_flow
from scenario_lib.simulation.compiled.read_circuit import is_symmetric, read_circuit, voltages_by_node
from scenario_lib.simulation.compiled.refusals import refuse_what_is_not_modelled
from scenario_lib.simulation.grid import ScenarioGrid
from scenario_lib.simulation.opendss import opendss_held


@dataclass(frozen=True, slots=True)
class Circuit:
    """A circuit and what its variable loads are.

    Attributes:
        bus_phases: The N recorded (bus, phase) pairs.
        node_names: Names such as "650.1" in elimination order.
        groups: For each datacenter phase, then each PV system and time-varying load, the number of its load parts.
    """

    network: Network
    bus_phases: tuple[tuple[str, int], ...]
    node_names: tuple[str, ...]
    groups: tuple[int, ...]


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
    start_v = voltages_by_node()
    dss.Solution.SolveNoControl()  # gives the added elements their nodes; a step from `start_v`, compared below
    refuse_what_is_not_modelled()
    raw = read_circuit()
    if not is_symmetric(raw.admittance):
        raise NotModelledError("an admittance matrix that is not symmetric")
    groups: list[tuple[str, ...]] = []
    groups += [(str(name),) for attached in grid._dc_attachments.values() for name in attached.load_names]
    groups += [tuple(names) for names in grid._element_names]
    bus_phases = tuple((str(bus), int(phase)) for bus, phase in grid.v_index)
    recorded = [f"{bus.lower()}.{phase}" for bus, phase in bus_phases]
    network, names = assemble_network(raw, start_v, recorded, [name.lower() for group in groups for name in group])
    circuit = Circuit(network, bus_phases, names, tuple(len(group) for group in groups))
    _check_against_opendss(circuit)
    return circuit


def _check_against_opendss(circuit: Circuit) -> None:
    """Make the solution that OpenDSS has just made, from the same voltages: whatever was misread shows here."""
    state = start_state(circuit.network)
    rebuild_admittance(circuit.network, state)
    iterations = solve_power_flow(circuit.network, state, OPENDSS)
    theirs = voltages_by_node()
    ours = state.v[:-1]
    distance = np.abs(ours - [theirs[name] for name in circuit.node_names]) / circuit.network.base_v
    worst = int(np.argmax(distance))
    if not distance[worst] <= AGREEMENT_PU or iterations != dss.Solution.Iterations():
        raise NotModelledError(
            f"something of this circuit (the voltage at {circuit.node_names[worst]} is {distance[worst]:.1e} pu "
            f"off OpenDSS's after {iterations} and {dss.Solution.Iterations()} iterations)"
        )
