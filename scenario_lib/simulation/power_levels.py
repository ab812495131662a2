"""The sorted values of a synthetic power trace: a quantile function through measured quantiles, of given mean and std.

Between two neighbouring anchors (1, 10, 50, 90, 99 %) the value rises from one to the other as a power of the way
gone in normal scores; beyond the outer anchors it goes on at half the slope of the neighbouring segment, downwards
geometrically, so that no value falls to 0. Six shapes (logarithms of the four exponents and of two tail slopes)
are 0 for a trace that is nearly normal within each segment. They are moved by the least change that meets mean and
standard deviation.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from scenario_lib.feeders.measurements import QUANTILES, PowerTraceStatistics

_Floats = NDArray[np.float64]

_ANCHOR_SCORES = np.array([NormalDist().inv_cdf(probability) for probability in QUANTILES])
# Exponents and tail slopes stay within a factor of e^3 of the plain shape: beyond it, the statistics contradict
# each other, and a curve that met them would have absurd extremes.
_SHAPE_LIMIT = 3.0
_ITERATIONS = 50
_MET = 1e-9
_STEP = 1e-5


def sorted_levels_w(statistics: PowerTraceStatistics, n_samples: int) -> _Floats:
    """Increasing values (W), shape (n_samples,), with the given quantiles, mean and standard deviation.

    The two values in the middle are equal: they are the first and the last of a trace that closes on itself.
    Statistics that contradict each other are met as nearly as the shape allows.
    """
    scores = normal_scores(n_samples)
    scores[n_samples // 2 + 1] = scores[n_samples // 2]
    anchors = np.array(statistics.quantiles_w_per_gpu)
    shapes = np.zeros(6)
    misses = _misses(scores, anchors, shapes, statistics)
    for _ in range(_ITERATIONS):
        if np.abs(misses).max() < _MET:
            break
        shapes, misses = _improve(scores, anchors, shapes, statistics)
    return _levels(scores, anchors, shapes)


def normal_scores(n_samples: int) -> _Floats:
    """Standard normal quantiles at i / (n_samples - 1), which is how `numpy.quantile` places sorted samples.

    The outermost two lie half a sample inside, as they would be infinite.
    """
    inside = np.clip(np.arange(n_samples) / (n_samples - 1), 0.5 / n_samples, 1 - 0.5 / n_samples)
    return np.array([NormalDist().inv_cdf(probability) for probability in inside])


def _improve(
    scores: _Floats, anchors: _Floats, shapes: _Floats, statistics: PowerTraceStatistics
) -> tuple[_Floats, _Floats]:
    """One Gauss-Newton step of least norm, halved until it helps; unchanged if no step helps."""
    misses = _misses(scores, anchors, shapes, statistics)
    slopes = np.stack(
        [(_misses(scores, anchors, shapes + _STEP * unit, statistics) - misses) / _STEP for unit in np.eye(6)], axis=1
    )
    step = -slopes.T @ np.linalg.solve(slopes @ slopes.T + 1e-12 * np.eye(2), misses)
    step /= max(1.0, float(np.abs(step).max()))
    for halving in range(20):
        tried = np.clip(shapes + step * 0.5**halving, -_SHAPE_LIMIT, _SHAPE_LIMIT)
        left = _misses(scores, anchors, tried, statistics)
        if np.hypot(*left) < np.hypot(*misses):
            return tried, left
    return shapes, misses


def _misses(scores: _Floats, anchors: _Floats, shapes: _Floats, statistics: PowerTraceStatistics) -> _Floats:
    """By how much mean and standard deviation are missed, in standard deviations, shape (2,)."""
    levels = _levels(scores, anchors, shapes)
    wanted = np.array([statistics.mean_w_per_gpu, statistics.std_w_per_gpu])
    return np.asarray((np.array([levels.mean(), levels.std()]) - wanted) / statistics.std_w_per_gpu)


def _levels(scores: _Floats, anchors: _Floats, shapes: _Floats) -> _Floats:
    """The quantile function at increasing normal scores, shape (n_samples,)."""
    factors = np.exp(shapes)
    segment = np.clip(np.searchsorted(_ANCHOR_SCORES, scores) - 1, 0, 3)
    way = (scores - _ANCHOR_SCORES[segment]) / np.diff(_ANCHOR_SCORES)[segment]
    levels = anchors[segment] + np.diff(anchors)[segment] * np.clip(way, 0, 1) ** factors[segment]
    tail_slopes = 0.5 * (np.diff(anchors) / np.diff(_ANCHOR_SCORES))[[0, 3]] * factors[4:]
    below = np.minimum(scores - _ANCHOR_SCORES[0], 0)
    above = np.maximum(scores - _ANCHOR_SCORES[-1], 0)
    return np.asarray(levels + anchors[0] * np.expm1(tail_slopes[0] / anchors[0] * below) + tail_slopes[1] * above)
