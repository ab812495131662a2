"""The loops over seconds: nobody in control, or one controller per site, OFO or rule-based."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import inlined_kernel, kernel
from scenario_lib.simulation.compiled.latency import LatencyDraws, LatencyFits, observe_itl
from scenario_lib.simulation.compiled.ofo import (
    OFOModels,
    OFOSettings,
    OFOState,
    primal_step,
    update_voltage_duals,
)
from scenario_lib.simulation.compiled.power_flow import GridState, Network, Tolerance
from scenario_lib.simulation.compiled.rule_based import apply_rules
from scenario_lib.simulation.compiled.second import W_PER_KW, Feeding, record_voltages, solve_second
from scenario_lib.simulation.compiled.sensitivity import estimate_sensitivity
from scenario_lib.simulation.compiled.server_power import Servers, model_power_w

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONVERGED, FAILED_IN_STEP, FAILED_IN_ESTIMATE = 0, 1, 2


class Plant(NamedTuple):
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


class Record(NamedTuple):
    """What a loop fills in: arrays over T seconds, batch sizes as levels; see `Rollout`."""

    voltages_pu: Floats
    power_w: Floats
    levels: Ints
    itl_s: Floats


@inlined_kernel
def site_powers(plant: Plant, second: int, levels: Ints, out_w: Floats) -> None:
    """Power of every site and phase (W) into `out_w`, shape (S, 3), added up in openg2g's order."""
    initial_levels, initial_power_w = plant.initial_levels, plant.initial_power_w[second]
    site_of_model, base_w, training_w = plant.site_of_model, plant.base_w, plant.training_w
    power_w = np.empty(3)
    out_w[:] = 0.0
    for model in range(levels.size):
        if levels[model] == initial_levels[model]:
            power_w[:] = initial_power_w[model]
        else:
            model_power_w(plant.servers, second, model, levels[model], power_w)
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
def observe_second(plant: Plant, second: int, levels: Ints, record: Record) -> None:
    """Note batch levels and latencies of one second."""
    record.levels[second, :] = levels
    replicas, out_s = plant.active_replicas[second], record.itl_s[second]
    observe_itl(plant.latency_fits, plant.latency_draws, second, levels, replicas, out_s)


@kernel
def run_uncontrolled(
    network: Network, state: GridState, feeding: Feeding, plant: Plant, tolerance: Tolerance, record: Record
) -> tuple[int, int]:
    """The baseline, for as many seconds as the record has room for.

    Returns:
        (second, outcome), the outcome being one of the constants above.
    """
    levels = plant.initial_levels
    for second in range(record.voltages_pu.shape[0]):
        site_powers(plant, second, levels, record.power_w[second])
        observe_second(plant, second, levels, record)
        if not solve_second(network, state, feeding, second, record.power_w[second], tolerance, second == 0):
            return second, FAILED_IN_STEP
        record_voltages(network, state, record.voltages_pu[second])
    return record.voltages_pu.shape[0], CONVERGED


@kernel
def run_rule_based(network, state, feeding, plant, tolerance, rules, record):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """The rule-based controller at every site; arguments and result as of `run_ofo`, with `Rules`."""
    levels = plant.initial_levels.copy()
    for second in range(record.voltages_pu.shape[0]):
        site_powers(plant, second, levels, record.power_w[second])
        observe_second(plant, second, levels, record)
        if not solve_second(network, state, feeding, second, record.power_w[second], tolerance, second == 0):
            return second, FAILED_IN_STEP
        record_voltages(network, state, record.voltages_pu[second])
        apply_rules(rules, plant.site_of_model, record.voltages_pu[second], record.itl_s[second], levels)
    return record.voltages_pu.shape[0], CONVERGED


class Controllers(NamedTuple):
    """The OFO controllers of all sites."""

    settings: OFOSettings
    models: OFOModels
    state: OFOState


@kernel
def run_ofo(  # noqa: PLR0913 - kernels take no settings objects
    network: Network,
    state: GridState,
    feeding: Feeding,
    plant: Plant,
    tolerance: Tolerance,
    controllers: Controllers,
    record: Record,
) -> tuple[int, int]:
    """OFO at every site, from the first second on; returns (second, outcome) as `run_uncontrolled`."""
    levels = plant.initial_levels.copy()
    for second in range(record.voltages_pu.shape[0]):
        site_powers(plant, second, levels, record.power_w[second])
        observe_second(plant, second, levels, record)
        if not solve_second(network, state, feeding, second, record.power_w[second], tolerance, second == 0):
            return second, FAILED_IN_STEP
        record_voltages(network, state, record.voltages_pu[second])
        if not _control(network, state, feeding, plant, tolerance, controllers, record, second, levels):
            return second, FAILED_IN_ESTIMATE
    return record.voltages_pu.shape[0], CONVERGED


@inlined_kernel
def _control(network, state, feeding, plant, tolerance, controllers, record, second, levels):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Let every site's controller act on `levels`; False if an estimate did not converge.

    Sites act in turn as far as the feeder is concerned, which an estimate changes; what each does with the voltages
    that it read concerns its own models only, and is done for all at once.
    """
    settings, models, memory = controllers
    interval = settings.sensitivity_update_interval
    estimating = second == 0 or (interval > 0 and second % interval == 0)
    voltages_pu = record.voltages_pu[second]
    if estimating:
        voltages_pu = voltages_pu.copy()
    gradient, share, site_of_model = np.empty(levels.size), plant.phase_share[second], plant.site_of_model
    model = 0
    for site in range(plant.base_w.size):
        if estimating:
            step_kw = settings.sensitivity_perturbation_kw
            step_va = complex(step_kw * W_PER_KW, step_kw * feeding.datacenter_tan * W_PER_KW)
            if not estimate_sensitivity(network, state, site, step_va, tolerance, memory.sensitivity[site]):
                return False
            record_voltages(network, state, voltages_pu)
        a, b, c = update_voltage_duals(settings, memory, site, voltages_pu)
        while model < levels.size and site_of_model[model] == site:
            gradient[model] = a * share[model, 0] + b * share[model, 1] + c * share[model, 2]
            model += 1
    primal_step(settings, models, memory, gradient, record.itl_s[second], plant.active_replicas[second], levels)
    return True
