"""Compile a scenario once, run it as often as wanted."""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from scenario_lib.errors import PowerFlowError, UnknownNameError
from scenario_lib.feeders.circuit_files import current_digest
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.assemble import start_state
from scenario_lib.simulation.compiled.circuit import Circuit, read_network
from scenario_lib.simulation.compiled.compile_once import all_compiled, compiling_once
from scenario_lib.simulation.compiled.controllers import build_ofo, build_rules
from scenario_lib.simulation.compiled.datacenter_tables import DatacenterTables, build_tables
from scenario_lib.simulation.compiled.loops import (
    CONVERGED,
    FAILED_IN_STEP,
    Controllers,
    Plant,
    Record,
    run_ofo,
    run_rule_based,
    run_uncontrolled,
)
from scenario_lib.simulation.compiled.measures import measure_rollout
from scenario_lib.simulation.compiled.power_flow import OPENDSS, GridState, Network, Tolerance
from scenario_lib.simulation.compiled.second import Feeding
from scenario_lib.simulation.grid import tan_phi
from scenario_lib.simulation.opendss import opendss_held
from scenario_lib.simulation.rollout import Rollout


@dataclass(frozen=True, slots=True)
class CompiledScenario:
    """A scenario as tables; runs leave it unchanged."""

    scenario: Scenario
    experiment: Experiment
    assets: Assets
    circuit: Circuit
    tables: DatacenterTables
    plant: Plant
    feeding: Feeding


def compile_scenario(
    scenario: Scenario, experiment: Experiment, assets: Assets, n_seconds: int = DURATION_S
) -> CompiledScenario:
    """Compile the first `n_seconds` of a scenario.

    The first scenario of a process on some circuit has OpenDSS compile it, which ends whatever else OpenDSS was
    simulating in this process.

    Raises:
        NotModelledError: The circuit or an asset has something that this engine does not model.
        PowerFlowError: OpenDSS does not converge at start-up.
        ValueError, RuntimeError: A drawn ramp needs more GPUs than its site has, as in the reference engine.
    """
    # OpenDSS first: whoever waits for it must not hold a lock that its holder may want.
    with opendss_held(), compiling_once("tables"):
        circuit = circuit_of(scenario, experiment)
        tables = build_tables(scenario, experiment, assets, n_seconds)
    plant = Plant(**{name: getattr(tables, name) for name in Plant._fields})
    feeding = _feeding(scenario, experiment, circuit, n_seconds)
    return CompiledScenario(scenario, experiment, assets, circuit, tables, plant, feeding)


def warm_up(experiment: Experiment, assets: Assets) -> None:
    """Have the kernels of screening's rollouts compiled, so that no worker spends half a minute and 200 MB on it.

    Returns at once where that has been done before. Otherwise takes about 20 s.

    Raises:
        NotModelledError, PowerFlowError: As from `compile_scenario`.
    """
    policies = ("none", "ofo")
    if all_compiled("tables", "measures", *(f"policy-{policy}" for policy in policies)):
        return
    compiled = compile_scenario(base_scenario(experiment), experiment, assets, n_seconds=2)
    for policy in policies:
        measure_rollout(run_compiled(compiled, policy).voltages_pu, *astuple(experiment.limits))


def circuit_of(scenario: Scenario, experiment: Experiment) -> Circuit:
    """The circuit with the scenario's elements, read once per process for all scenarios with the same, as long as its
    files stay as they are."""
    key = _circuit_key(scenario, experiment)
    with opendss_held():
        if key not in _CIRCUITS:
            while len(_CIRCUITS) >= _CIRCUITS_KEPT:
                del _CIRCUITS[next(iter(_CIRCUITS))]
            _CIRCUITS[key] = read_network(scenario, experiment)
        return _CIRCUITS[key]


_CIRCUITS_KEPT = 8
_CIRCUITS: dict[object, Circuit] = {}
"""Circuits read in this process, the last few of them."""


def _circuit_key(scenario: Scenario, experiment: Experiment) -> object:
    feeder = experiment.feeder
    content = current_digest(Path(feeder.circuit))
    return (
        (feeder.circuit, content, feeder.source_pu, tuple(feeder.initial_taps_pu.items()), feeder.exclude_buses),
        tuple((site.name, site.bus, site.connection_type) for site in scenario.sites),
        tuple((power.bus, power.bus_kv) for power in scenario.pv_systems),
        tuple((power.bus, power.bus_kv) for power in scenario.tvl),
    )


def _feeding(scenario: Scenario, experiment: Experiment, circuit: Circuit, n_seconds: int) -> Feeding:
    times_s = np.arange(n_seconds, dtype=float)
    elements = [*scenario.pv_systems, *scenario.tvl]
    signs = [-1.0] * len(scenario.pv_systems) + [1.0] * len(scenario.tvl)
    kw = [sign * element.kw_per_phase(times_s) for sign, element in zip(signs, elements, strict=True)]
    return Feeding(
        datacenter_tan=tan_phi(max(experiment.datacenter.power_factor, 1e-6)),
        element_kw=np.ascontiguousarray(np.array(kw).reshape(-1, n_seconds).T),
        element_tan=np.array([tan_phi(element.power_factor) for element in elements]),
        element_of_part=np.repeat(np.arange(len(elements)), circuit.groups[3 * len(scenario.sites) :]).astype(np.int64),
    )


def run_compiled(compiled: CompiledScenario, policy: str = "none", tolerance: Tolerance = OPENDSS) -> Rollout:
    """Run a compiled scenario under a policy.

    Raises:
        PowerFlowError: The power flow does not converge; the error has the second.
        UnknownNameError: No policy of that name.
    """
    if policy not in _RUNNERS:
        raise UnknownNameError(f"policy {policy!r} is not known; expected one of {', '.join(_RUNNERS)}")
    record = empty_record(compiled, len(compiled.tables.active_replicas))
    with compiling_once(f"policy-{policy}"):
        second, outcome = _RUNNERS[policy](compiled, tolerance, record)
    if outcome != CONVERGED:
        raise PowerFlowError(second, "step" if outcome == FAILED_IN_STEP else "sensitivity estimate")
    return _rollout(compiled, policy, record)


def _run_uncontrolled(compiled: CompiledScenario, tolerance: Tolerance, record: Record) -> tuple[int, int]:
    second, outcome = run_uncontrolled(*start_of(compiled), tolerance, record)
    return second, outcome


def _run_ofo(compiled: CompiledScenario, tolerance: Tolerance, record: Record) -> tuple[int, int]:
    second, outcome = run_ofo(*start_of(compiled), tolerance, ofo_controllers(compiled), record)
    return second, outcome


def _run_rule_based(
    compiled: CompiledScenario, tolerance: Tolerance, record: Record, *, zonal: bool
) -> tuple[int, int]:
    rules = build_rules(compiled.scenario, compiled.experiment, compiled.tables, compiled.circuit.bus_phases, zonal)
    second, outcome = run_rule_based(*start_of(compiled), tolerance, rules, record)
    return second, outcome


def start_of(compiled: CompiledScenario) -> tuple[Network, GridState, Feeding, Plant]:
    """What every loop over seconds begins with."""
    network = compiled.circuit.network
    return network, start_state(network), compiled.feeding, compiled.plant


def ofo_controllers(compiled: CompiledScenario) -> Controllers:
    """The scenario's OFO controllers before their first step, with the experiment's tuning."""
    n_bus_phases = len(compiled.circuit.bus_phases)
    return build_ofo(compiled.scenario, compiled.experiment, compiled.assets, compiled.tables, n_bus_phases)


_Runner = Callable[[CompiledScenario, Tolerance, Record], tuple[int, int]]
_RUNNERS: dict[str, _Runner] = {
    "none": _run_uncontrolled,
    "ofo": _run_ofo,
    "rule-based": partial(_run_rule_based, zonal=False),
    "rule-based-zonal": partial(_run_rule_based, zonal=True),
}


def empty_record(compiled: CompiledScenario, n_seconds: int) -> Record:
    """Room for what a loop records."""
    n_models = len(compiled.tables.model_labels)
    return Record(
        voltages_pu=np.empty((n_seconds, len(compiled.circuit.bus_phases))),
        power_w=np.empty((n_seconds, len(compiled.tables.site_names), 3)),
        levels=np.empty((n_seconds, n_models), np.int64),
        itl_s=np.empty((n_seconds, n_models)),
    )


def _rollout(compiled: CompiledScenario, policy: str, record: Record) -> Rollout:
    tables = compiled.tables
    return Rollout(
        policy=policy,
        bus_phases=compiled.circuit.bus_phases,
        site_names=tables.site_names,
        model_labels=tables.model_labels,
        voltages_pu=record.voltages_pu,
        power_w=record.power_w,
        batch_sizes=tables.batch_sizes[np.arange(len(tables.model_labels)), record.levels],
        active_replicas=tables.active_replicas.copy(),
        itl_s=record.itl_s,
    )
