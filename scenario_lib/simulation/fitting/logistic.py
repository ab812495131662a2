"""A logistic curve over log2(batch size) through published figures, by least squares.

For a given midpoint and steepness the curve is linear in its two levels, which then have a closed form; these two are
searched on a grid, and no optimiser decides where the search ends.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenario_lib.feeders.measurements import LogisticFit

_Floats = NDArray[np.float64]

# Batch sizes are between 8 and 4096: a midpoint outside them makes the curve nearly exponential, or nearly flat.
_MIDPOINTS = np.linspace(2.0, 13.0, 111)
_STEEPNESSES = np.geomspace(0.25, 4.0, 81)
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FittedLogistic:
    """A fit and the part of the variance that it explains (R^2)."""

    fit: LogisticFit
    r_squared: float


def fit_logistic(batch_sizes: _Floats, values: _Floats) -> FittedLogistic:
    """The curve b0 + L / (1 + exp(-k (x - x0))), x = log2(batch size), nearest to the values, of shape (n,) both.

    L may be negative: some deployments draw less power at larger batch sizes.
    """
    x = np.log2(batch_sizes)
    curves = 1.0 / (1.0 + np.exp(-_STEEPNESSES[:, None] * (x - _MIDPOINTS[:, None, None])))
    rises = curves - curves.mean(axis=-1, keepdims=True)
    deviations = values - values.mean()
    levels = (rises @ deviations) / (rises**2).sum(axis=-1)
    squares = ((levels[..., None] * rises - deviations) ** 2).sum(axis=-1)
    i, j = np.unravel_index(int(squares.argmin()), squares.shape)
    rise = levels[i, j]
    fit = LogisticFit(
        L=_rounded(rise),
        x0=_rounded(_MIDPOINTS[i]),
        k=_rounded(_STEEPNESSES[j]),
        b0=_rounded(values.mean() - rise * curves[i, j].mean()),
    )
    return FittedLogistic(fit, float(1.0 - squares[i, j] / (deviations**2).sum()))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
