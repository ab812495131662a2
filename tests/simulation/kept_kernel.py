"""A small kernel of its own, for tests of how machine code is kept; in a module, which fresh processes import."""

import numpy as np

from scenario_lib.simulation.compiled import jit


@jit.kernel
def total(values):
    """Sum of the squares of an array of floats."""
    found = 0.0
    for value in values:
        found += value * value
    return found


def measured() -> float:
    """The kernel's result, as the engine calls its kernels."""
    with jit.compiling_once("total"):
        return total(np.array([0.5, 1.5]))
