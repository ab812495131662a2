"""Voltage sensitivity to one datacenter's power, by the same sequence of solutions as openg2g's estimate.

Each perturbation is a text edit in OpenDSS: powers are rounded to the six decimals of the text, and Y is rebuilt
with every load's admittance at its present power. The state left behind is the one that OFO then reads.
"""

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel
from scenario_lib.simulation.compiled.power_flow import (
    GridState,
    Network,
    Tolerance,
    rebuild_admittance,
    solve_power_flow,
)
from scenario_lib.simulation.compiled.second import W_PER_KW, record_voltages

Floats = NDArray[np.float64]

_TEXT_DECIMALS = 1e6


@kernel
def _as_text_va(kw: float, kvar: float) -> complex:
    """Power as six decimals of kW and kvar hold it."""
    rounded_kw = np.rint(kw * _TEXT_DECIMALS) / _TEXT_DECIMALS
    rounded_kvar = np.rint(kvar * _TEXT_DECIMALS) / _TEXT_DECIMALS
    return complex(rounded_kw * W_PER_KW, rounded_kvar * W_PER_KW)


@kernel
def estimate_sensitivity(
    network: Network, state: GridState, site: int, step_va: complex, tolerance: Tolerance, out: Floats
) -> bool:
    """Estimate dV/dP of the recorded bus-phases (pu per kW) into `out`, shape (N, 3).

    Args:
        site: Datacenter whose three phases are perturbed, one after another.
        step_va: Perturbation, reactive power included.

    Returns:
        False if one of the solutions did not converge.
    """
    if not solve_power_flow(network, state, tolerance):
        return False
    before = np.empty(out.shape[0])
    record_voltages(network, state, before)
    first = network.fixed_power_va.size + 3 * site
    kva = state.power_va[first : first + 3] / W_PER_KW
    step = step_va / W_PER_KW
    for phase in range(3):
        kw, kvar = kva[phase].real, kva[phase].imag
        state.power_va[first + phase] = _as_text_va(kw + step.real, kvar + step.imag)
        rebuild_admittance(network, state)
        if not solve_power_flow(network, state, tolerance):
            return False
        after = np.empty(out.shape[0])
        record_voltages(network, state, after)
        out[:, phase] = (after - before) / step.real
        state.power_va[first + phase] = _as_text_va(kw, kvar)
    rebuild_admittance(network, state)
    return bool(solve_power_flow(network, state, tolerance))
