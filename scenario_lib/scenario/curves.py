"""The curves that profiles are made of, vectorised in time (s)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# (amplitude, period in s, factor on the phase): incommensurate periods, so that the sum does not visibly repeat.
_FLUCTUATION = ((0.06, 173.0, 1.0), (0.05, 97.3, 2.3), (0.04, 251.7, 0.7), (0.03, 41.9, 4.1), (0.02, 317.3, 1.9))


def bump(t: ArrayLike, centre_s: float, half_width_s: float) -> Array:
    """(1 - x^2)^2 with x = |t - centre| / half width, and 0 where x >= 1."""
    x = np.abs(np.asarray(t, float) - centre_s) / half_width_s
    inside: Array = np.where(x < 1.0, (1.0 - x * x) ** 2, 0.0)
    return inside


def smoothstep(t: ArrayLike, start_s: float, end_s: float) -> Array:
    """x^2 (3 - 2x) with x = (t - start) / (end - start) clipped to [0, 1]; a step at start if end <= start."""
    times = np.asarray(t, float)
    if end_s <= start_s:
        return np.where(times >= start_s, 1.0, 0.0)
    x = np.clip((times - start_s) / (end_s - start_s), 0.0, 1.0)
    return np.asarray(x * x * (3.0 - 2.0 * x))


def fluctuation(t: ArrayLike, phase: float) -> Array:
    """A sum of five sines around 1, with amplitudes of 2 to 6 %."""
    times = np.asarray(t, float)
    total = np.ones_like(times)
    for amplitude, period_s, factor in _FLUCTUATION:
        total = total + amplitude * np.sin(2 * np.pi * times / period_s + factor * phase)
    return total
