"""One second of a feeder: set what the variable loads draw, and solve."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import inlined_kernel, kernel
from scenario_lib.simulation.compiled.power_flow import (
    GridState,
    Network,
    rebuild_admittance,
    solve_power_flow,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Complexes = NDArray[np.complex128]

W_PER_KW = 1000.0


class Feeding(NamedTuple):
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
def set_powers(network: Network, state: GridState, feeding: Feeding, second: int, site_power_w: Floats) -> None:
    """Set every variable load's power; site_power_w has shape (S, 3)."""
    part = network.fixed_power_va.size
    for site in range(site_power_w.shape[0]):
        for phase in range(3):
            state.power_va[part] = _power_va(site_power_w[site, phase] / W_PER_KW, feeding.datacenter_tan)
            part += 1
    for element in feeding.element_of_part:
        state.power_va[part] = _power_va(feeding.element_kw[second, element], feeding.element_tan[element])
        part += 1


@kernel
def _power_va(kw: float, tan: float) -> complex:
    return complex(kw * W_PER_KW, kw * tan * W_PER_KW)


@inlined_kernel
def solve_second(network, state, feeding, second, site_power_w, tolerance, first):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Power flow of one second; the number of iterations, 0 if it did not converge.

    The first second of a rollout rebuilds Y: elements were added since the circuit was compiled.
    """
    set_powers(network, state, feeding, second, site_power_w)
    if first:
        rebuild_admittance(network, state)
    return solve_power_flow(network, state, tolerance)


@inlined_kernel
def record_voltages(network: Network, state: GridState, out_pu: Floats) -> None:
    """Voltages of the recorded bus-phases (pu) into `out_pu`, shape (N,)."""
    for i in range(network.recorded.size):
        node = network.recorded[i]
        out_pu[i] = state.magnitude_v[node] / network.base_v[node]
