"""A mixture of two lognormals through four published quantiles of the inter-token latency.

Five parameters stand against four quantiles: the weight of stalls, median and width of the steady part, how far
stalls lie above it, and their width. The last is drawn gently towards 0.3, so that quantiles which say nothing about
it leave it there. The shift `loc` of openg2g's mixture is 0: quantiles from the median up do not identify it.
Levenberg-Marquardt on the logarithms of the quantiles, from several starts, keeping the best.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenario_lib.feeders.measurements import ITLMixture

_Floats = NDArray[np.float64]

PROBABILITIES = (0.50, 0.90, 0.95, 0.99)

# Weight of stalls; log median of the steady part over the published median; its sigma; log of stalls over steady;
# sigma of stalls.
_LOWEST = np.array([0.005, -1.2, 0.01, 0.05, 0.02])
_HIGHEST = np.array([0.6, 0.3, 1.0, 2.5, 0.8])
_RANGE = _HIGHEST - _LOWEST
_USUAL_STALL_SIGMA = 0.3
_PULL = 0.01
_ITERATIONS, _HALVINGS, _BISECTIONS = 40, 8, 36
_MET, _GOOD_ENOUGH = 0.002, 0.005
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FittedMixture:
    """A mixture, the largest miss of a quantile (as a fraction), and its mean (s)."""

    mixture: ITLMixture
    quantile_error: float
    mean_s: float


def fit_mixture(batch_size: int, quantiles_s: tuple[float, float, float, float]) -> FittedMixture:
    """The mixture through the 50, 90, 95 and 99 % quantiles (s)."""
    logs = np.log(np.array(quantiles_s) / quantiles_s[0])
    best, least = np.zeros(5), math.inf
    for start in _starts(logs):
        found = _descend(start, logs)
        error = float(np.abs(_misses(found, logs)[:4]).max())
        if error < least:
            best, least = found, error
        if least < _GOOD_ENOUGH:
            break
    mixture = _mixture(batch_size, best, quantiles_s[0])
    return FittedMixture(mixture, math.expm1(least), mixture.mean_s())


def _mixture(batch_size: int, shape: _Floats, median_s: float) -> ITLMixture:
    weight, log_scale, sigma, above, stall_sigma = (float(value) for value in shape)
    pi_stall = round(weight, _DIGITS)
    return ITLMixture(
        batch_size=batch_size,
        loc=0.0,
        pi_steady=round(1.0 - pi_stall, _DIGITS),
        sigma_steady=_rounded(sigma),
        scale_steady=_rounded(median_s * math.exp(log_scale)),
        pi_stall=pi_stall,
        sigma_stall=_rounded(stall_sigma),
        scale_stall=_rounded(median_s * math.exp(log_scale + above)),
    )


def _starts(logs: _Floats) -> list[_Floats]:
    """From rare stalls beyond the 99 % to frequent ones beyond the 90 %."""
    wide = min(max(logs[1] / 1.3, 0.02), 0.9)
    guesses = (
        (0.02, wide, logs[3] + 0.1),
        (0.07, wide, logs[3] * 0.9),
        (0.15, min(wide, 0.08), logs[2]),
        (0.35, min(wide, 0.2), logs[1]),
        (0.07, 0.03, logs[3]),
    )
    return [
        np.clip(np.array([weight, -weight * sigma, sigma, above, _USUAL_STALL_SIGMA]), _LOWEST, _HIGHEST)
        for weight, sigma, above in guesses
    ]


def _descend(shape: _Floats, logs: _Floats) -> _Floats:
    misses, damping = _misses(shape, logs), 1e-2
    for _ in range(_ITERATIONS):
        slopes = _slopes(shape, misses, logs)
        tried, left, damping = _step(shape, misses, slopes, logs, damping)
        if tried is shape:
            break
        gained = misses @ misses - left @ left
        shape, misses = tried, left
        if np.abs(misses[:4]).max() < _MET or gained < 1e-3 * (misses @ misses):
            break
    return shape


def _step(
    shape: _Floats, misses: _Floats, slopes: _Floats, logs: _Floats, damping: float
) -> tuple[_Floats, _Floats, float]:
    """One damped Gauss-Newton step inside the bounds; the same shape if none helps."""
    squares = slopes.T @ slopes
    for _ in range(_HALVINGS):
        damped = squares + damping * np.diag(np.diag(squares) + 1e-9)
        tried = np.clip(shape - np.linalg.solve(damped, slopes.T @ misses) * _RANGE, _LOWEST, _HIGHEST)
        left = _misses(tried, logs)
        if left @ left < misses @ misses:
            return tried, left, damping / 3
        damping *= 4
    return shape, misses, damping


def _slopes(shape: _Floats, misses: _Floats, logs: _Floats) -> _Floats:
    """Derivatives of the misses by each parameter in units of its range, shape (5, 5)."""
    columns = []
    for i, width in enumerate(1e-4 * _RANGE):
        moved = shape.copy()
        moved[i] += width if moved[i] + width < _HIGHEST[i] else -width
        columns.append((_misses(moved, logs) - misses) / (moved[i] - shape[i]) * _RANGE[i])
    return np.stack(columns, axis=1)


def _misses(shape: _Floats, logs: _Floats) -> _Floats:
    pull = _PULL * (shape[4] - _USUAL_STALL_SIGMA)
    return np.append(np.array(_log_quantiles(*shape.tolist())) - logs, pull)


def _log_quantiles(weight: float, log_scale: float, sigma: float, above: float, stall_sigma: float) -> list[float]:
    """Logarithms of the quantiles over the published median, by bisection of the distribution function."""
    found, low = [], log_scale - 3.0 * sigma
    for probability in PROBABILITIES:
        high = log_scale + above + 4.0 * max(sigma, stall_sigma)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            steady = math.erfc((log_scale - middle) / (sigma * math.sqrt(2.0)))
            stalls = math.erfc((log_scale + above - middle) / (stall_sigma * math.sqrt(2.0)))
            if (1.0 - weight) * steady + weight * stalls < 2.0 * probability:
                low = middle
            else:
                high = middle
        found.append(low)
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
