"""The loops over seconds: nobody in control, or one controller per site, OFO or rule-based.

Measures of a rollout in one pass: the numbers of `metrics.voltage`, several times faster; sums agree to rounding.

Compile a scenario once, run it as often as wanted.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scenario_lib._arrays import Floats, Ints
from scenario_lib.errors import PowerFlowError, UnknownNameError
from scenario_lib.execution.worker import done_beside
from scenario_lib.feeders.circuit_files import current_digest
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.circuit import Circuit, read_network, start_state
from scenario_lib.simulation.compiled.controllers import (
    Controllers,
    apply_rules,
    build_ofo,
    build_rules,
    estimate_sensitivity,
    primal_step,
    update_voltage_duals,
)
from scenario_lib.simulation.compiled.datacenter import DatacenterTables, build_tables
from scenario_lib.simulation.compiled.jit import all_compiled, compiling_once, inlined_kernel, kernel
from scenario_lib.simulation.compiled.power_flow import (
    OPENDSS,
    W_PER_KW,
    GridState,
    LoadArrays,
    Network,
    Tolerance,
    distances_outside,
    record_voltages,
    solve_second,
)
from scenario_lib.simulation.compiled.servers import LatencyDraws, LatencyFits, Servers, model_power_w, observe_itl
from scenario_lib.simulation.compiled.sparse import copy_values
from scenario_lib.simulation.opendss.engine import opendss_held
from scenario_lib.simulation.opendss.grid import tan_phi
from scenario_lib.simulation.rollout import Rollout

CONVERGED, FAILED_IN_STEP, FAILED_IN_ESTIMATE = 0, 1, 2


class DatacenterArrays(NamedTuple):
    """The datacenters of a scenario as kernels see them; see `DatacenterTables` for each."""

    servers: Servers
    latency_fits: LatencyFits
    latency_draws: LatencyDraws
    initial_levels: Ints
    initial_power_w: Floats
    site_of_model: Ints
    active_replicas: Ints
    phase_share: Floats
    base_w: Floats
    training_w: Floats


class RolloutArrays(NamedTuple):
    """What a loop fills in: arrays over T seconds, batch sizes as levels; see `Rollout`."""

    voltages_pu: Floats
    power_w: Floats
    levels: Ints
    itl_s: Floats


@inlined_kernel
def site_powers(datacenters: DatacenterArrays, second: int, levels: Ints, out_w: Floats) -> None:
    """Power of every site and phase (W) into `out_w`, shape (S, 3), added up in openg2g's order.

    Levels have shape (M,). Once more in `looked_up_powers`, which looks every power up.
    """
    initial_levels, initial_power_w = datacenters.initial_levels, datacenters.initial_power_w[second]
    site_of_model, base_w, training_w = datacenters.site_of_model, datacenters.base_w, datacenters.training_w
    power_w = np.empty(3)
    out_w[:] = 0.0
    for model in range(levels.size):
        if levels[model] == initial_levels[model]:
            copy_values(initial_power_w[model], power_w)
        else:
            model_power_w(datacenters.servers, second, model, levels[model], power_w)
        site = site_of_model[model]
        for phase in range(3):
            out_w[site, phase] += power_w[phase]
    for site in range(out_w.shape[0]):
        for phase in range(3):
            out_w[site, phase] = base_w[site] + out_w[site, phase]
    for run in range(training_w.shape[0]):
        for phase in range(3):
            out_w[0, phase] += training_w[run, second]


@inlined_kernel
def observe_second(datacenters: DatacenterArrays, second: int, levels: Ints, record: RolloutArrays) -> None:
    """Note batch levels, shape (M,), and latencies of one second in its row of the record."""
    copy_values(levels, record.levels[second])
    replicas, out_s = datacenters.active_replicas[second], record.itl_s[second]
    observe_itl(datacenters.latency_fits, datacenters.latency_draws, second, levels, replicas, out_s)


@inlined_kernel
def _simulate_second(network, state, load_arrays, datacenters, tolerance, record, second, levels):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """One second at batch levels of shape (M,), into the record; False if the power flow did not converge.

    Args:
        network, state: The circuit, and its voltages and factor, which go on from the second before.
        load_arrays, datacenters: What the variable loads draw.
        tolerance: When the power flow stops.
        record: Gets the second's row of every array, see `RolloutArrays`.
        second: From 0 on; the first one rebuilds Y.
    """
    power_w = record.power_w[second]
    site_powers(datacenters, second, levels, power_w)
    observe_second(datacenters, second, levels, record)
    if not solve_second(network, state, load_arrays, second, power_w, tolerance, second == 0):
        return False
    record_voltages(network, state, record.voltages_pu[second])
    return True


@kernel
def run_uncontrolled(
    network: Network,
    state: GridState,
    load_arrays: LoadArrays,
    datacenters: DatacenterArrays,
    tolerance: Tolerance,
    record: RolloutArrays,
) -> tuple[int, int]:
    """The baseline, for as many seconds as the record has room for.

    Args:
        network, state: The circuit, and its state before the first second.
        load_arrays, datacenters: What the variable loads draw, for at least as many seconds.
        tolerance: When each power flow stops.
        record: Is filled in, see `RolloutArrays`.

    Returns:
        (second, outcome), the outcome being one of the constants above.
    """
    levels = datacenters.initial_levels
    for second in range(record.voltages_pu.shape[0]):
        if not _simulate_second(network, state, load_arrays, datacenters, tolerance, record, second, levels):
            return second, FAILED_IN_STEP
    return record.voltages_pu.shape[0], CONVERGED


@kernel
def run_rule_based(network, state, load_arrays, datacenters, tolerance, rules, record):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """The rule-based controller at every site; arguments and result as of `run_ofo`, with `Rules`."""
    levels = datacenters.initial_levels.copy()
    for second in range(record.voltages_pu.shape[0]):
        if not _simulate_second(network, state, load_arrays, datacenters, tolerance, record, second, levels):
            return second, FAILED_IN_STEP
        apply_rules(rules, datacenters.site_of_model, record.voltages_pu[second], record.itl_s[second], levels)
    return record.voltages_pu.shape[0], CONVERGED


@kernel
def run_ofo(  # noqa: PLR0913 - kernels take no settings objects
    network: Network,
    state: GridState,
    load_arrays: LoadArrays,
    datacenters: DatacenterArrays,
    tolerance: Tolerance,
    controllers: Controllers,
    record: RolloutArrays,
) -> tuple[int, int]:
    """OFO at every site, from the first second on, remembering in `controllers`; otherwise as `run_uncontrolled`."""
    levels = datacenters.initial_levels.copy()
    for second in range(record.voltages_pu.shape[0]):
        if not _simulate_second(network, state, load_arrays, datacenters, tolerance, record, second, levels):
            return second, FAILED_IN_STEP
        if not _control(network, state, load_arrays, datacenters, tolerance, controllers, record, second, levels):
            return second, FAILED_IN_ESTIMATE
    return record.voltages_pu.shape[0], CONVERGED


@inlined_kernel
def _control(network, state, load_arrays, datacenters, tolerance, controllers, record, second, levels):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Let every site's controller act on `levels`; False if an estimate did not converge.

    Sites act in turn as far as the feeder is concerned, which an estimate changes; what each does with the voltages
    that it read concerns its own models only, and is done for all at once. Arguments as of `run_ofo`; levels have
    shape (M,).
    """
    settings, models, memory = controllers
    interval = settings.sensitivity_update_interval
    estimating = second == 0 or (interval > 0 and second % interval == 0)
    voltages_pu = record.voltages_pu[second]
    if estimating:
        voltages_pu = voltages_pu.copy()
    gradient, share, site_of_model = np.empty(levels.size), datacenters.phase_share[second], datacenters.site_of_model
    model = 0
    for site in range(datacenters.base_w.size):
        if estimating:
            step_kw = settings.sensitivity_perturbation_kw
            step_va = complex(step_kw * W_PER_KW, step_kw * load_arrays.datacenter_tan * W_PER_KW)
            if not estimate_sensitivity(network, state, site, step_va, tolerance, memory.sensitivity[site]):
                return False
            record_voltages(network, state, voltages_pu)
        a, b, c = update_voltage_duals(settings, memory, site, voltages_pu)
        while model < levels.size and site_of_model[model] == site:
            gradient[model] = a * share[model, 0] + b * share[model, 1] + c * share[model, 2]
            model += 1
    primal_step(settings, models, memory, gradient, record.itl_s[second], datacenters.active_replicas[second], levels)
    return True


def measure_rollout(
    voltages_pu: Floats, v_min_pu: float, v_max_pu: float, dt_s: float = 1.0
) -> tuple[VoltageMeasures, Floats]:
    """Measures and penalty trace (pu^2, shape (T,)) of voltages of shape (T, N); see `metrics.voltage`."""
    under, over, penalty = (np.zeros(len(voltages_pu)) for _ in range(3))
    with compiling_once("measures"):
        _outside(voltages_pu, v_min_pu, v_max_pu, under, over, penalty)
    measures = VoltageMeasures(
        integral_pu_s=float(np.sum((under + over) * dt_s)),
        violation_time_s=float(np.count_nonzero((under > 0) | (over > 0)) * dt_s),
        undervoltage_time_s=float(np.count_nonzero(under > 0) * dt_s),
        overvoltage_time_s=float(np.count_nonzero(over > 0) * dt_s),
        worst_v_min_pu=float(np.min(voltages_pu)),
        worst_v_max_pu=float(np.max(voltages_pu)),
    )
    return measures, penalty


@kernel
def _outside(voltages_pu, v_min, v_max, under, over, penalty):  # type: ignore[no-untyped-def]
    """At every second, the sums over bus-phases of distances outside the limits, and of their squares.

    Args:
        voltages_pu: Shape (T, N).
        v_min, v_max: The limits (pu).
        under, over, penalty: Room for the sums below (pu), above (pu) and of squares (pu^2), shape (T,).
    """
    for t in range(voltages_pu.shape[0]):
        below, above, squares = 0.0, 0.0, 0.0
        for i in range(voltages_pu.shape[1]):
            low, high = distances_outside(voltages_pu[t, i], v_min, v_max)
            below += low
            above += high
            squares += low * low + high * high
        under[t], over[t], penalty[t] = below, above, squares


@dataclass(frozen=True, slots=True)
class CompiledScenario:
    """A scenario as tables; runs leave it unchanged."""

    scenario: Scenario
    experiment: Experiment
    assets: Assets
    circuit: Circuit
    tables: DatacenterTables
    datacenters: DatacenterArrays
    load_arrays: LoadArrays


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
        circuit = _circuit_of(scenario, experiment)
        tables = build_tables(scenario, experiment, assets, n_seconds)
    datacenters = DatacenterArrays(**{name: getattr(tables, name) for name in DatacenterArrays._fields})
    load_arrays = _load_arrays(scenario, experiment, circuit, n_seconds)
    return CompiledScenario(scenario, experiment, assets, circuit, tables, datacenters, load_arrays)


def warm_up(experiment: Experiment, assets: Assets) -> None:
    """Have the kernels of screening's rollouts compiled, so that no worker spends half a minute and 200 MB on it.

    Returns at once where that has been done before. Otherwise another process compiles OFO's meanwhile, if there is a
    core for it.

    Raises:
        NotModelledError, PowerFlowError: As from `compile_scenario`.
    """
    if all_compiled("tables", "measures", "policy-none", "policy-ofo"):
        return
    with done_beside(_compile_policy, (experiment, assets, "ofo")):
        _compile_policy((experiment, assets, "none"))
    _compile_policy((experiment, assets, "ofo"))  # loads what the other process has left, or makes it


def _compile_policy(what: tuple[Experiment, Assets, str]) -> None:
    experiment, assets, policy = what
    compiled = compile_scenario(base_scenario(experiment), experiment, assets, n_seconds=2)
    measure_rollout(run_compiled(compiled, policy).voltages_pu, *astuple(experiment.limits))


def _circuit_of(scenario: Scenario, experiment: Experiment) -> Circuit:
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
        (feeder.circuit, content, feeder.source_pu, feeder.exclude_buses),
        (tuple(feeder.initial_taps_pu.items()), tuple(feeder.initial_capacitor_steps.items())),
        tuple((site.name, site.bus, site.connection_type) for site in scenario.sites),
        tuple((power.bus, power.bus_kv) for power in scenario.pv_systems),
        tuple((power.bus, power.bus_kv) for power in scenario.tvl),
    )


def _load_arrays(scenario: Scenario, experiment: Experiment, circuit: Circuit, n_seconds: int) -> LoadArrays:
    times_s = np.arange(n_seconds, dtype=float)
    elements = [*scenario.pv_systems, *scenario.tvl]
    signs = [-1.0] * len(scenario.pv_systems) + [1.0] * len(scenario.tvl)
    kw = [sign * element.kw_per_phase(times_s) for sign, element in zip(signs, elements, strict=True)]
    return LoadArrays(
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
    return rollout_of(compiled, policy, record)


def _run_uncontrolled(compiled: CompiledScenario, tolerance: Tolerance, record: RolloutArrays) -> tuple[int, int]:
    second, outcome = run_uncontrolled(*start_of(compiled), tolerance, record)
    return second, outcome


def _run_ofo(compiled: CompiledScenario, tolerance: Tolerance, record: RolloutArrays) -> tuple[int, int]:
    second, outcome = run_ofo(*start_of(compiled), tolerance, ofo_controllers(compiled), record)
    return second, outcome


def _run_rule_based(
    compiled: CompiledScenario, tolerance: Tolerance, record: RolloutArrays, *, zonal: bool
) -> tuple[int, int]:
    rules = build_rules(compiled.scenario, compiled.experiment, compiled.tables, compiled.circuit.bus_phases, zonal)
    second, outcome = run_rule_based(*start_of(compiled), tolerance, rules, record)
    return second, outcome


def start_of(compiled: CompiledScenario) -> tuple[Network, GridState, LoadArrays, DatacenterArrays]:
    """What every loop over seconds begins with."""
    network = compiled.circuit.network
    return network, start_state(network), compiled.load_arrays, compiled.datacenters


def ofo_controllers(compiled: CompiledScenario) -> Controllers:
    """The scenario's OFO controllers before their first step, with the experiment's tuning."""
    n_bus_phases = len(compiled.circuit.bus_phases)
    return build_ofo(compiled.scenario, compiled.experiment, compiled.assets, compiled.tables, n_bus_phases)


_Runner = Callable[[CompiledScenario, Tolerance, RolloutArrays], tuple[int, int]]
_RUNNERS: dict[str, _Runner] = {
    "none": _run_uncontrolled,
    "ofo": _run_ofo,
    "rule-based": partial(_run_rule_based, zonal=False),
    "rule-based-zonal": partial(_run_rule_based, zonal=True),
}


def empty_record(compiled: CompiledScenario, n_seconds: int) -> RolloutArrays:
    """Room for what a loop records."""
    n_models = len(compiled.tables.model_labels)
    return RolloutArrays(
        voltages_pu=np.empty((n_seconds, len(compiled.circuit.bus_phases))),
        power_w=np.empty((n_seconds, len(compiled.tables.site_names), 3)),
        levels=np.empty((n_seconds, n_models), np.int64),
        itl_s=np.empty((n_seconds, n_models)),
    )


def rollout_of(compiled: CompiledScenario, policy: str, record: RolloutArrays) -> Rollout:
    """What a loop recorded, as a rollout."""
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
