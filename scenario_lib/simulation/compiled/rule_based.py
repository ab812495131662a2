"""openg2g's rule-based controller of batch sizes, as a kernel: the worst violation moves log2(batch size) against it.

Undervoltage comes before overvoltage. One controller per site, which looks at its zone alone if it has one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.simulation.compiled.kernels import kernel
from scenario_lib.simulation.compiled.ofo import nearest_size

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Rules(NamedTuple):
    """The controllers of all S sites, and what they remember of M models.

    Attributes:
        step_size: Change of log2(batch size) per violation (1/pu).
        v_min, v_max, deadband: Limits, and the largest violation that is ignored (pu).
        zone_start, zone_member: Recorded bus-phases that each site looks at, one site after another, shape (S + 1,)
            and joined.
        batch_sizes: Feasible sizes of each model itself, rising, filled up with the largest, shape (M, F).
        level: Engine level of each, shape (M, F).
        n_sizes: How many a model has, shape (M,).
        lowest_x, highest_x: log2 of the first and last of them, shape (M,).
        itl_deadline_s: Latency beyond which a batch size is not raised; infinite for none. Shape (M,).
        x: log2 of the continuous batch size, moved by each step, shape (M,).
    """

    step_size: float
    v_min: float
    v_max: float
    deadband: float
    zone_start: Ints
    zone_member: Ints
    batch_sizes: Ints
    level: Ints
    n_sizes: Ints
    lowest_x: Floats
    highest_x: Floats
    itl_deadline_s: Floats
    x: Floats


@kernel
def apply_rules(rules: Rules, site_of_model: Ints, voltages_pu: Floats, itl_s: Floats, levels: Ints) -> None:
    """Move every model's x and put the level of the nearest of its batch sizes into `levels`, shape (M,).

    Args:
        voltages_pu: Of the recorded bus-phases.
        itl_s: Observed latency, NaN without replicas, shape (M,).
    """
    for model in range(levels.size):
        pressure = _pressure(rules, site_of_model[model], voltages_pu)
        if pressure == 0.0:
            continue
        x, step = rules.x[model], -rules.step_size * pressure
        if step > 0.0 and itl_s[model] > rules.itl_deadline_s[model]:
            step = 0.0
        x = max(rules.lowest_x[model], min(rules.highest_x[model], x + step))
        rules.x[model] = x
        levels[model] = rules.level[model, nearest_size(rules.batch_sizes[model], rules.n_sizes[model], 2.0**x)]


@kernel
def _pressure(rules: Rules, site: int, voltages_pu: Floats) -> float:
    """Worst undervoltage in the site's zone, else the worst overvoltage as a negative number, else 0 (pu)."""
    under, over = 0.0, 0.0
    for member in rules.zone_member[rules.zone_start[site] : rules.zone_start[site + 1]]:
        voltage = voltages_pu[member]
        under, over = max(under, rules.v_min - voltage), max(over, voltage - rules.v_max)
    if under > rules.deadband:
        return under
    return -over if over > rules.deadband else 0.0
