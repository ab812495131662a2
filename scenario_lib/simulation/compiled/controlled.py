"""A rollout on the compiled engine under a controller in Python: machine code steps, the controller decides."""

import numpy as np

from scenario_lib.errors import PowerFlowError
from scenario_lib.simulation.compiled.batch import BatchSimulator
from scenario_lib.simulation.compiled.episode import window_of
from scenario_lib.simulation.compiled.power_flow import OPENDSS, Tolerance
from scenario_lib.simulation.compiled.rollout import CompiledScenario, empty_record, rollout_of
from scenario_lib.simulation.controller import ControlledScenario, ControllerPolicy
from scenario_lib.simulation.rollout import Rollout


def run_controller(compiled: CompiledScenario, policy: ControllerPolicy, tolerance: Tolerance = OPENDSS) -> Rollout:
    """Run a compiled scenario under a controller, which sees second t and acts in second t + 1.

    Raises:
        PowerFlowError: The power flow does not converge; the error has the second.
        ControllerError: The controller raised an error, or returned something else than feasible batch sizes.
    """
    tables, bus_phases = compiled.tables, compiled.circuit.bus_phases
    n_seconds, n_models = tables.active_replicas.shape
    controlled = ControlledScenario.of(compiled.scenario, compiled.experiment, bus_phases, n_seconds)
    columns = {name: m for m, name in enumerate(controlled.models)}
    levels = [
        {int(size): level for level, size in enumerate(row[:n])}
        for row, n in zip(tables.batch_sizes, tables.n_levels, strict=True)
    ]
    simulator = BatchSimulator.of([window_of(compiled, tolerance=tolerance)], tolerance=tolerance)
    sizes = tables.batch_sizes[np.arange(n_models), tables.initial_levels].copy()
    record = empty_record(compiled, n_seconds)
    policy.reset(compiled.scenario)
    for second in range(n_seconds):
        observed = simulator.advance()
        if not observed.converged[0]:
            raise PowerFlowError(second, "step")
        record.voltages_pu[second] = observed.voltages_pu[0]
        record.power_w[second] = observed.power_w[0]
        record.itl_s[second] = observed.itl_s[0]
        record.levels[second] = simulator.progress.levels[0]
        measured = record.itl_s[second], tables.active_replicas[second], record.power_w[second]
        now = controlled.now(second, record.voltages_pu[second], sizes.tolist(), measured)
        for name, size in policy.decide(now).items():
            column = columns[name]
            sizes[column], simulator.progress.levels[0, column] = size, levels[column][size]
    return rollout_of(compiled, policy.name, record)
