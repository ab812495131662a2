"""What single-phase parts of loads draw at a voltage: OpenDSS's load models 1, 2, 4 and 5.

Formulas: OpenDSS technical notes on the load model, checked against its terminal currents at voltages from 0.3 to
1.3 pu. In band: constant power (1), linear active and quadratic reactive power unless told otherwise (4), constant
current magnitude (5). Model 2, constant impedance, cancels against its own admittance and is never in a table.
Below `v_min` the current goes linearly down to that of the nominal impedance at `v_low`, which holds below; above
`v_max` it is that of the impedance which meets the model there.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel

CONSTANT_POWER, CONSTANT_IMPEDANCE, VOLTAGE_EXPONENTS, CONSTANT_CURRENT = 1, 2, 4, 5
KNOWN_MODELS = (CONSTANT_POWER, CONSTANT_IMPEDANCE, VOLTAGE_EXPONENTS, CONSTANT_CURRENT)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.uint32]
Complexes = NDArray[np.complex128]


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

    node: Indices
    return_node: Indices
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
def draw_currents(
    table: LoadTable, power_va: Complexes, admittance: Complexes, v: Complexes, current_a: Complexes
) -> None:
    """Add to every node's current what Y counts for the parts at it, less what they draw (A).

    Arrays are taken out of their tuple first: passing the tuple on would cost more than all of the arithmetic.

    Args:
        power_va, admittance: Of each part, as drawn and as in Y, shape (K,).
        v: Node voltages (V), ground last, shape (n + 1,).
        current_a: Shape (n + 1,); what is put at ground does not matter.
    """
    node_of, return_of, model, base_v = table.node, table.return_node, table.model, table.base_v
    low_v, min_v, max_v = table.low_v, table.min_v, table.max_v
    min_squared, max_squared = table.min_squared, table.max_squared
    watt_exponent, var_exponent = table.watt_exponent, table.var_exponent
    for k in range(node_of.size):
        node, return_node = node_of[k], return_of[k]
        across = v[node] - v[return_node]
        squared = across.real * across.real + across.imag * across.imag
        watts, negative_vars = power_va[k].real, -power_va[k].imag
        if squared <= min_squared[k] or squared > max_squared[k]:
            scale = _out_of_band(model[k] == CONSTANT_CURRENT, base_v[k], low_v[k], min_v[k], max_v[k], squared)
        elif model[k] == CONSTANT_POWER:
            scale = 1.0 / squared
        elif model[k] == CONSTANT_CURRENT:
            scale = 1.0 / (np.sqrt(squared) * base_v[k])
        else:
            ratio, scale = np.sqrt(squared) / base_v[k], 1.0 / squared
            watts *= _raised(ratio, watt_exponent[k])
            negative_vars *= _raised(ratio, var_exponent[k])
        current = (admittance[k] - complex(watts * scale, negative_vars * scale)) * across
        current_a[node] += current
        current_a[return_node] -= current


@kernel
def _raised(ratio: float, exponent: float) -> float:
    """A power, without the cost of one for OpenDSS's default exponents."""
    if exponent == 1.0:
        return ratio
    return ratio * ratio if exponent == 2.0 else ratio**exponent


@kernel
def _out_of_band(
    constant_current: bool, base_v: float, low_v: float, min_v: float, max_v: float, squared_v: float
) -> float:
    """Factor from conjugate power to admittance outside min_v to max_v."""
    nominal = 1.0 / (base_v * base_v)
    if squared_v <= low_v * low_v:
        return nominal
    if squared_v > min_v * min_v:
        return nominal * base_v / max_v if constant_current else 1.0 / (max_v * max_v)
    current_low = nominal * low_v
    current_min = nominal * base_v if constant_current else 1.0 / min_v
    voltage = np.sqrt(squared_v)
    return float((current_low + (current_min - current_low) / (min_v - low_v) * (voltage - low_v)) / voltage)
