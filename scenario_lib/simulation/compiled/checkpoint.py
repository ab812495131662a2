"""Where a scenario's power flow goes on: the path to a second matters at 1e-5 pu, so it is kept, or walked again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import PowerFlowError
from scenario_lib.simulation.compiled.compile_once import compiling_once
from scenario_lib.simulation.compiled.engine import CompiledScenario, empty_record, start_of
from scenario_lib.simulation.compiled.loops import CONVERGED, run_uncontrolled
from scenario_lib.simulation.compiled.power_flow import OPENDSS, Tolerance


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that the power flow of `second` depends on, besides what the scenario prescribes.

    Attributes:
        v: Node voltages of the second before (V), ground last, shape (n + 1,).
        magnitude_v: Their magnitudes, shape (n,).
        admittance: Admittances that Y holds for each load part (S), shape (K,).
    """

    second: int
    v: NDArray[np.complex128]
    magnitude_v: NDArray[np.float64]
    admittance: NDArray[np.complex128]


def baseline_checkpoint(compiled: CompiledScenario, second: int, tolerance: Tolerance = OPENDSS) -> Checkpoint:
    """Where the baseline stands when `second` is next: the start of an episode inside a rollout.

    Raises:
        PowerFlowError: The power flow does not converge before.
    """
    network, state, *prescribed = start_of(compiled)
    record = empty_record(compiled, second)
    with compiling_once("policy-none"):
        failed, outcome = run_uncontrolled(network, state, *prescribed, tolerance, record)
    if outcome != CONVERGED:
        raise PowerFlowError(failed, "step")
    return Checkpoint(second, state.v, state.magnitude_v, state.admittance)
