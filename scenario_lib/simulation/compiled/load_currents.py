"""What single-phase parts of loads draw at a voltage: OpenDSS's load models 1, 2, 4 and 5.

Formulas: OpenDSS technical notes on the load model, checked against its terminal currents at voltages from 0.3 to
1.3 pu. In band: constant power (1), linear active and quadratic reactive power unless told otherwise (4), constant
current magnitude (5). Model 2, constant impedance, cancels against its own admittance and is never in a table.
Below `v_min` the current goes linearly down to that of the nominal impedance at `v_low`, which holds below; above
`v_max` it is that of the impedance which meets the model there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel

CONSTANT_POWER, CONSTANT_IMPEDANCE, VOLTAGE_EXPONENTS, CONSTANT_CURRENT = 1, 2, 4, 5
KNOWN_MODELS = (CONSTANT_POWER, CONSTANT_IMPEDANCE, VOLTAGE_EXPONENTS, CONSTANT_CURRENT)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LoadTable(NamedTuple):
    """Parts of loads between two nodes each, shape (K,) throughout; a tuple, as kernels take no classes.

    Attributes:
        node, return_node: Where the current goes in and out; n means ground.
        model: One of the constants above, never `CONSTANT_IMPEDANCE`.
        base_v: Nominal voltage across the part (V).
        low_v, min_v, max_v: Where the model changes (V).
        min_squared, max_squared: Squares of two of these (V^2).
        watt_exponent, var_exponent: For `VOLTAGE_EXPONENTS`.
    """

    node: Ints
    return_node: Ints
    model: Ints
    base_v: Floats
    low_v: Floats
    min_v: Floats
    max_v: Floats
    min_squared: Floats
    max_squared: Floats
    watt_exponent: Floats
    var_exponent: Floats


@kernel
def load_conductance(table: LoadTable, k: int, power_va: complex, squared_v: float) -> Any:
    """Admittance (S) at which part k draws its current; `squared_v` is the squared voltage across it (V^2)."""
    base_v = table.base_v[k]
    low_v, min_v, max_v = table.low_v[k], table.min_v[k], table.max_v[k]
    if squared_v <= table.min_squared[k] or squared_v > table.max_squared[k]:
        scale = _out_of_band(table.model[k] == CONSTANT_CURRENT, base_v, (low_v, min_v, max_v), squared_v)
        return complex(power_va.real * scale, -power_va.imag * scale)
    if table.model[k] == CONSTANT_POWER:
        scale = 1.0 / squared_v
        return complex(power_va.real * scale, -power_va.imag * scale)
    if table.model[k] == CONSTANT_CURRENT:
        scale = 1.0 / (np.sqrt(squared_v) * base_v)
        return complex(power_va.real * scale, -power_va.imag * scale)
    ratio, scale = np.sqrt(squared_v) / base_v, 1.0 / squared_v
    watts = power_va.real * ratio ** table.watt_exponent[k]
    return complex(watts * scale, -power_va.imag * ratio ** table.var_exponent[k] * scale)


@kernel
def _out_of_band(constant_current: bool, base_v: float, limits_v: tuple[float, float, float], squared_v: float) -> Any:
    """Factor from conjugate power to admittance outside min_v to max_v."""
    low_v, min_v, max_v = limits_v
    nominal = 1.0 / (base_v * base_v)
    if squared_v <= low_v * low_v:
        return nominal
    if squared_v > min_v * min_v:
        return nominal * base_v / max_v if constant_current else 1.0 / (max_v * max_v)
    current_low = nominal * low_v
    current_min = nominal * base_v if constant_current else 1.0 / min_v
    voltage = np.sqrt(squared_v)
    return (current_low + (current_min - current_low) / (min_v - low_v) * (voltage - low_v)) / voltage
