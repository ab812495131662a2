"""What stepping many scenarios takes: powers looked up in tables, and one scenario's part of stacked arrays."""

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import inlined_kernel, kernel
from scenario_lib.simulation.compiled.power_flow import GridState
from scenario_lib.simulation.compiled.server_power import Servers, model_power_w

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def fill_power_table(servers: Servers, first_second: int, n_levels: Ints, out_w: Floats) -> None:
    """Power of every model at every level: out_w has shape (T, M, L, 3). Unused levels stay as they are."""
    for t in range(out_w.shape[0]):
        for model in range(out_w.shape[1]):
            for level in range(n_levels[model]):
                model_power_w(servers, first_second + t, model, level, out_w[t, model, level])


@inlined_kernel
def state_of(states: GridState, i: int) -> GridState:
    """State of one scenario, sharing memory with the stack."""
    return GridState(
        states.v[i],
        states.magnitude_v[i],
        states.power_va[i],
        states.admittance[i],
        states.lower[i],
        states.inverse_diagonal[i],
        states.forward[i],
        states.backward[i],
    )


@inlined_kernel
def looked_up_powers(tables, i, t, levels, out_w):  # type: ignore[no-untyped-def]
    """As `loops.site_powers`, with every model's power looked up."""
    power_w, site_of_model = tables.model_power_w[i, t], tables.site_of_model
    out_w[:] = 0.0
    for model in range(levels.size):
        for phase in range(3):
            out_w[site_of_model[model], phase] += power_w[model, levels[model], phase]
    for site in range(out_w.shape[0]):
        for phase in range(3):
            out_w[site, phase] = tables.base_w[i, site] + out_w[site, phase]
    for run in range(tables.training_w.shape[1]):
        for phase in range(3):
            out_w[0, phase] += tables.training_w[i, run, t]
