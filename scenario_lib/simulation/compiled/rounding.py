"""How near a decision of OFO lay to where its batch size rounds the other way, and what moves it.

OFO rounds a continuous batch size, kept as x = log2(batch size), to the nearest feasible one. Engines whose voltages
differ by at most d differ in x as well, so an x that lies on the boundary between two sizes may fall either way.
To first order x is off by at most

    (|dx/dV| + |dx/ds| 2 / (p h)) d

The first term is what the duals take from voltages. They act together if all voltages are off the same way, which for
duals is both limits moved the other way: that is how dx/dV is found. The second is the sensitivities' part. Each is a
difference of two voltages over a perturbation of p kW, so off by at most 2 d / p, beside a typical size of h. They
are multiplied by the scale of the voltage gradient: moving that finds dx/ds, the response to sensitivities that are
larger by a part of themselves.
"""

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.compile_once import compiling_once
from scenario_lib.simulation.compiled.engine import CompiledScenario, empty_record, ofo_controllers, start_of
from scenario_lib.simulation.compiled.loops import run_ofo
from scenario_lib.simulation.compiled.ofo import OFOSettings, OFOState
from scenario_lib.simulation.compiled.power_flow import OPENDSS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STEP_PU, _STEP_OF_SCALE = 1e-10, 1e-8
"""Steps of the difference quotients: far above rounding errors, and rarely enough to change a decision themselves."""


def continuous_batches(compiled: CompiledScenario, n_seconds: int) -> tuple[Floats, Floats]:
    """x of every model after OFO acted for `n_seconds`, and how much a voltage difference moves it (1/pu); shapes (M,).

    The controllers read OpenDSS's tolerance, as screening does.
    """
    tuning = ofo_controllers(compiled).settings
    state = _state_after(compiled, n_seconds, tuning)
    moved = tuning._replace(v_min=tuning.v_min + _STEP_PU, v_max=tuning.v_max + _STEP_PU)
    steeper = tuning._replace(voltage_gradient_scale=tuning.voltage_gradient_scale * (1 + _STEP_OF_SCALE))
    dx_dv = np.abs(_state_after(compiled, n_seconds, moved).x - state.x) / _STEP_PU
    dx_ds = np.abs(_state_after(compiled, n_seconds, steeper).x - state.x) / _STEP_OF_SCALE
    typical = float(np.median(np.abs(state.sensitivity).max(axis=2)))
    return state.x, dx_dv + dx_ds * 2 / (tuning.sensitivity_perturbation_kw * typical)


def way_to(x: float, batch_size: int, feasible: Ints) -> float:
    """Distance of x from the interval that is rounded to a batch size; infinite for one that is not feasible."""
    sizes = np.unique(feasible)
    if batch_size not in sizes:
        return float("inf")
    boundaries = np.concatenate([[-np.inf], np.log2((sizes[1:] + sizes[:-1]) / 2), [np.inf]])
    at = int(np.searchsorted(sizes, batch_size))
    return float(max(boundaries[at] - x, x - boundaries[at + 1], 0.0))


def _state_after(compiled: CompiledScenario, n_seconds: int, tuning: OFOSettings) -> OFOState:
    controllers = ofo_controllers(compiled)._replace(settings=tuning)
    with compiling_once("policy-ofo"):
        run_ofo(*start_of(compiled), OPENDSS, controllers, empty_record(compiled, n_seconds))
    return controllers.state
