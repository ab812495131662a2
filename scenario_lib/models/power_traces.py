"""The sorted values of a synthetic power trace: a quantile function through measured quantiles, of given mean and std.

Between two neighbouring anchors (1, 10, 50, 90, 99 %) the value rises from one to the other as a power of the way
gone in normal scores; beyond the outer anchors it goes on at half the slope of the neighbouring segment, downwards
geometrically, so that no value falls to 0. Six shapes (logarithms of the four exponents and of two tail slopes)
are 0 for a trace that is nearly normal within each segment. They are moved by the least change that meets mean and
standard deviation.

The order in time of the values of a synthetic power trace: an arrangement with given autocorrelations.

First the values are arranged by iterated amplitude-adjusted Fourier transform (Schreiber and Schmitz, Physical
Review Letters 77, 635, 1996, https://doi.org/10.1103/PhysRevLett.77.635): spectrum and values are imposed in turn.
The few thousandths to hundredths by which the autocorrelations then still miss are removed by swapping pairs.

Synthetic power traces of one GPU, with the statistics of measured ones.

The measured traces are not shipped; their statistics are. A trace made here has the mean, standard deviation,
quantiles and autocorrelations of the measurement, in values that are otherwise as plain as these allow
(`power_levels`), in an otherwise random order (`power_order`). Whatever else the measurement had, such as a slow
start or a pattern of spikes, is not in it.

Length: 601 samples, one a second, for every measurement, be it 40 s or an hour long. openg2g plays a template of
600 s, which has 601 points, over and over, and takes its last point from the start of the recording. A trace made
here ends on the value it starts with, so that what is played is, sample by sample, what was calibrated. Repeating
a measurement of 70 s instead would play the same 70 s nine times and correlate the trace with itself at that period.

The single-GPU power trace of the training overlay, made from parameters, and its digest.

Kept apart from the other assets because checking a record needs it, and must not load OpenDSS.
"""

import hashlib
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openg2g.datacenter.workloads.training import TrainingTrace, TrainingTraceParams

from scenario_lib._arrays import Floats
from scenario_lib._values import ANY, Bounds, count, positive, refuse, require_at_least, require_bounds
from scenario_lib.errors import InvalidSettingError
from scenario_lib.models.measurements import AUTOCORRELATION_LAGS_S, QUANTILES, PowerTraceStatistics

_ANCHOR_SCORES = np.array([NormalDist().inv_cdf(probability) for probability in QUANTILES])
# Exponents and tail slopes stay within a factor of e^3 of the plain shape: beyond it, the statistics contradict
# each other, and a curve that met them would have absurd extremes.
_SHAPE_LIMIT = 3.0
_ITERATIONS = 50
_MET = 1e-9
_STEP = 1e-5


def _sorted_levels_w(statistics: PowerTraceStatistics, n_samples: int) -> Floats:
    """Increasing values (W), shape (n_samples,), with the given quantiles, mean and standard deviation.

    The two values in the middle are equal: they are the first and the last of a trace that closes on itself.
    Statistics that contradict each other are met as nearly as the shape allows.
    """
    scores = _normal_scores(n_samples)
    scores[n_samples // 2 + 1] = scores[n_samples // 2]
    anchors = np.array(statistics.quantiles_w_per_gpu)
    shapes = np.zeros(6)
    misses = _misses(scores, anchors, shapes, statistics)
    for _ in range(_ITERATIONS):
        if np.abs(misses).max() < _MET:
            break
        shapes, misses = _improve(scores, anchors, shapes, statistics)
    return _levels(scores, anchors, shapes)


def _normal_scores(n_samples: int) -> Floats:
    """Standard normal quantiles at i / (n_samples - 1), which is how `numpy.quantile` places sorted samples.

    The outermost two lie half a sample inside, as they would be infinite.
    """
    inside = np.clip(np.arange(n_samples) / (n_samples - 1), 0.5 / n_samples, 1 - 0.5 / n_samples)
    return np.array([NormalDist().inv_cdf(probability) for probability in inside])


def _improve(
    scores: Floats, anchors: Floats, shapes: Floats, statistics: PowerTraceStatistics
) -> tuple[Floats, Floats]:
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


def _misses(scores: Floats, anchors: Floats, shapes: Floats, statistics: PowerTraceStatistics) -> Floats:
    """By how much mean and standard deviation are missed, in standard deviations, shape (2,)."""
    levels = _levels(scores, anchors, shapes)
    wanted = np.array([statistics.mean_w_per_gpu, statistics.std_w_per_gpu])
    return np.asarray((np.array([levels.mean(), levels.std()]) - wanted) / statistics.std_w_per_gpu)


def _levels(scores: Floats, anchors: Floats, shapes: Floats) -> Floats:
    """The quantile function at increasing normal scores, shape (n_samples,)."""
    factors = np.exp(shapes)
    segment = np.clip(np.searchsorted(_ANCHOR_SCORES, scores) - 1, 0, 3)
    way = (scores - _ANCHOR_SCORES[segment]) / np.diff(_ANCHOR_SCORES)[segment]
    levels = anchors[segment] + np.diff(anchors)[segment] * np.clip(way, 0, 1) ** factors[segment]
    tail_slopes = 0.5 * (np.diff(anchors) / np.diff(_ANCHOR_SCORES))[[0, 3]] * factors[4:]
    below = np.minimum(scores - _ANCHOR_SCORES[0], 0)
    above = np.maximum(scores - _ANCHOR_SCORES[-1], 0)
    return np.asarray(levels + anchors[0] * np.expm1(tail_slopes[0] / anchors[0] * below) + tail_slopes[1] * above)


_ROUNDS = 100
_SWAPS = 400
_PAIRS_TRIED_PER_SWAP = 512
_AUTOCORRELATION_MET = 0.002
# Correlation times tried for the lasting part of the process (s).
_CORRELATION_TIMES_S = np.geomspace(1.0, 200.0, 80)


def autocorrelation(values: Floats, lag: int) -> float:
    """Sum of (x[t] - m)(x[t + lag] - m) over the sum of (x[t] - m)^2, with m the mean of all values."""
    deviations = values - values.mean()
    return float(deviations[:-lag] @ deviations[lag:] / (deviations @ deviations))


def _arrange_in_time(levels: Floats, autocorrelations: tuple[float, ...], rng: np.random.Generator) -> Floats:
    """The values in an order that has the given autocorrelations and closes on itself.

    Args:
        levels: Increasing values, shape (n,), n odd; the middle one and its upper neighbour are equal.
        autocorrelations: Wanted at `AUTOCORRELATION_LAGS_S`, one value a sample.
        rng: Source of the random order.

    Returns:
        The same values, shape (n,); first and last are the two equal ones of the middle. Autocorrelations that no
        order of these values has are met as nearly as the search finds.
    """
    wanted = np.array(autocorrelations)
    middle = len(levels) // 2
    cycle, start = _cycle(np.delete(levels, middle + 1), middle, _acf(len(levels) - 1, wanted), rng)
    cycle = np.roll(cycle, -start)
    return _swap_until_met(np.append(cycle, cycle[0]), wanted, rng)


def _acf(period: int, wanted: Floats) -> Floats:
    """Autocorrelations at lags 0 to period // 2: a decaying part fitted to the wanted ones, and these themselves.

    The decaying part, weight * exp(-lag / time), carries a correlation that lasts over to the lags in between.
    """
    lags = np.array(AUTOCORRELATION_LAGS_S)
    decays = np.exp(-lags / _CORRELATION_TIMES_S[:, None])
    weights = np.clip(decays @ wanted / (decays**2).sum(axis=1), 0, 1)
    best = int(np.argmin(((weights[:, None] * decays - wanted) ** 2).sum(axis=1)))
    acf = np.asarray(weights[best] * np.exp(-np.arange(period // 2 + 1) / _CORRELATION_TIMES_S[best]))
    acf[0] = 1.0
    acf[lags] = wanted
    return acf


def _cycle(levels: Floats, marked: int, acf: Floats, rng: np.random.Generator) -> tuple[Floats, int]:
    """Increasing values in a periodic order with nearly that autocorrelation, and the place of the marked one."""
    period = len(levels)
    # Lags that form no valid autocorrelation give negative power at some frequencies: left out.
    amplitudes = np.sqrt(np.clip(np.fft.rfft(np.concatenate([acf, acf[-2:0:-1]])).real, 0, None))
    order = np.argsort(rng.random(period))
    for _ in range(_ROUNDS):
        values = np.empty(period)
        values[order] = levels
        phases = np.angle(np.fft.rfft(values - values.mean()))
        shaped = np.fft.irfft(amplitudes * np.exp(1j * phases), period)
        previous, order = order, np.argsort(shaped, kind="stable")
        if np.array_equal(previous, order):
            break
    values = np.empty(period)
    values[order] = levels
    return values, int(order[marked])


def _swap_until_met(values: Floats, wanted: Floats, rng: np.random.Generator) -> Floats:
    """Swap pairs, each time the best of many random ones, until the autocorrelations are met; the ends stay."""
    deviations = values - values.mean()
    for _ in range(_SWAPS):
        misses = np.array([autocorrelation(deviations, lag) for lag in AUTOCORRELATION_LAGS_S]) - wanted
        if np.abs(misses).max() < _AUTOCORRELATION_MET:
            break
        pairs = rng.integers(1, len(values) - 1, (2, _PAIRS_TRIED_PER_SWAP))
        after = ((misses[:, None] + _swap_effects(deviations, pairs)) ** 2).sum(axis=0)
        best = int(np.argmin(after))
        if after[best] < misses @ misses:
            for array in (deviations, values):
                array[pairs[:, best]] = array[pairs[::-1, best]]
    return values


def _swap_effects(deviations: Floats, pairs: NDArray[np.int64]) -> Floats:
    """What swapping each pair would add to each autocorrelation, shape (lags, pairs)."""
    left, right = pairs
    rise = deviations[right] - deviations[left]
    effects = []
    for lag in AUTOCORRELATION_LAGS_S:
        padded = np.pad(deviations, lag)
        neighbours = padded[: len(deviations)] + padded[2 * lag :]
        # Two that are each other's neighbours keep their common product.
        own = rise**2 * (np.abs(left - right) == lag)
        effects.append(rise * (neighbours[left] - neighbours[right]) - own)
    return np.array(effects) / (deviations @ deviations)


GENERATOR_VERSION = 1
"""Raised whenever the same statistics and seed give another trace."""

POWER_TRACE_SEED = 0
"""Seed of the traces that ship with scenario-lib."""

POWER_TRACE_SAMPLES = 601
"""Samples of a trace: what a template of 600 s at 1 s has."""

POWER_DECIMALS = 3
"""Digits after the point of a power in W; traces are calibrated as rounded."""

# Coarser than where the search ends: only statistics that contradict each other miss these.
_MEAN_TOLERANCE = 0.001
_STD_TOLERANCE = 0.02
_QUANTILE_TOLERANCE = 0.005
_AUTOCORRELATION_TOLERANCE = 0.03


def trace_rng(seed: int, label: str, batch_size: int) -> np.random.Generator:
    """Generator of one model's trace at one batch size: its own stream, whatever else is made from the seed."""
    label_key = int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(label_key, batch_size)))


def synthesize_power_w_per_gpu(
    statistics: PowerTraceStatistics, rng: np.random.Generator, n_samples: int = POWER_TRACE_SAMPLES
) -> NDArray[np.float64]:
    """Power of one GPU at 1 s (W), shape (n_samples,), rounded to `POWER_DECIMALS`; the last value is the first.

    The same statistics and the same state of `rng` give the same trace.

    Args:
        statistics: What the trace is to have.
        rng: Source of the order in time; the values themselves involve no chance.
        n_samples: A multiple of 100 plus 1, so that the quantiles fall on samples; at least 201.

    Raises:
        InvalidSettingError: Another `n_samples`, or statistics that no such trace has: they contradict each other.
    """
    if n_samples % 100 != 1 or n_samples < 201:
        raise InvalidSettingError(f"n_samples is {n_samples}; expected a multiple of 100 plus 1, at least 201")
    levels = _sorted_levels_w(statistics, n_samples).round(POWER_DECIMALS)
    trace = _arrange_in_time(levels, statistics.autocorrelations, rng)
    _require_met(trace, statistics)
    return trace


def _require_met(trace: NDArray[np.float64], statistics: PowerTraceStatistics) -> None:
    mean, std = statistics.mean_w_per_gpu, statistics.std_w_per_gpu
    quantiles = statistics.quantiles_w_per_gpu
    checks = [
        ("mean_w_per_gpu", mean, trace.mean(), _MEAN_TOLERANCE * mean),
        ("std_w_per_gpu", std, trace.std(), _STD_TOLERANCE * std),
        *(
            (f"p{100 * probability:02.0f}_w_per_gpu", wanted, found, _QUANTILE_TOLERANCE * wanted)
            for probability, wanted, found in zip(QUANTILES, quantiles, np.quantile(trace, QUANTILES), strict=True)
        ),
        *(
            (f"autocorr_{lag}s", wanted, autocorrelation(trace, lag), _AUTOCORRELATION_TOLERANCE)
            for lag, wanted in zip(AUTOCORRELATION_LAGS_S, statistics.autocorrelations, strict=True)
        ),
    ]
    missed = [
        f"{field} {wanted:g} (nearest {found:g})" for field, wanted, found, by in checks if abs(found - wanted) > by
    ]
    if missed:
        raise InvalidSettingError(
            f"power statistics at batch size {statistics.batch_size} contradict each other: no trace of "
            f"{len(trace)} samples was found with {', '.join(missed)}; expected statistics of one trace: correct them"
        )


# A convolution inside the generator may differ in the last bit between processors; a digest of micro-watts does not.
_DIGEST_DECIMALS = 6

_MOST_SAMPLES = 1_000_000
"""Stored parameters come from a file; a trace of hours at a tenth of a second is far below this."""

_MOST_PIECES = 100_000
"""Segments or dips: the generator makes them one by one."""

_MOST_SUMMANDS = 1_000_000_000
"""Of all smoothing windows, or of all dips: some seconds of work."""

_BOUNDS = {
    "duration_s": Bounds(-1e15, 1e15),  # only its ratio to `dt_s` matters, which is checked below
    "dt_s": Bounds(-1e15, 1e15),
    "seed": count(0, 2**63 - 1),
    "P_hi": ANY,
    "P_lo": ANY,
    "sigma_hi": Bounds(0),
    "sigma_lo": Bounds(0),
    "dip_prob_per_sec": Bounds(0),
    "smooth_window_s": Bounds(0),
    "ramp_s": Bounds(0),
    "ramp_from": ANY,
}
_RANGE_BOUNDS = {
    "seg_lo_range": positive(),
    "seg_hi_range": positive(),
    "dip_depth_range": ANY,
    "dip_dur_range": Bounds(0),
}


@dataclass(frozen=True, slots=True)
class TrainingTraceRecipe:
    """What a library keeps of its training trace: the generator's parameters and the digest of the result."""

    params: dict[str, Any]
    digest: str


def make_training_trace() -> TrainingTrace:
    """openg2g's synthetic training trace with its default parameters: 1000 s at 0.1 s."""
    return TrainingTrace.generate()


def training_trace_digest(trace: TrainingTrace) -> str:
    """SHA-256 of times (s) and powers (W), rounded to micro-units."""
    rounded = np.round(np.stack([trace.t_s, trace.power_w]).astype("<f8"), _DIGEST_DECIMALS) + 0.0
    return hashlib.sha256(rounded.tobytes()).hexdigest()


def training_trace_recipe() -> TrainingTraceRecipe:
    """The recipe of the trace that rollouts use."""
    params = TrainingTraceParams()
    return TrainingTraceRecipe(params.model_dump(mode="json"), training_trace_digest(TrainingTrace.generate(params)))


def regenerate_training_trace(params: dict[str, Any]) -> TrainingTrace:
    """The trace that stored parameters mean.

    Raises:
        ValueError, TypeError: They are not those of a trace.
    """
    parsed = TrainingTraceParams(**params)
    require_bounds(parsed, _BOUNDS)
    if parsed.dt_s <= 0 or not 1 <= parsed.duration_s / parsed.dt_s <= _MOST_SAMPLES:
        raise ValueError(f"{parsed.duration_s} s at {parsed.dt_s} s is not between 1 and {_MOST_SAMPLES} samples")
    for name, bounds in _RANGE_BOUNDS.items():
        low, high = getattr(parsed, name)
        bounds.require(name, low)
        bounds.require(name, high)
        require_at_least(f"upper end of {name}", high, low)
    _require_little_work(parsed)
    return TrainingTrace.generate(parsed)


def _require_little_work(params: TrainingTraceParams) -> None:
    """Refuse parameters that would keep the generator busy: it is to be trusted with a stranger's."""
    samples = params.duration_s / params.dt_s
    shortest_s = min(params.seg_lo_range[0], params.seg_hi_range[0])
    if shortest_s < params.dt_s or params.duration_s / shortest_s > _MOST_PIECES:
        raise refuse("seg_lo_range, seg_hi_range", shortest_s, f"at least dt_s, and at most {_MOST_PIECES} segments")
    dips = params.dip_prob_per_sec * params.duration_s
    if dips > _MOST_PIECES or dips * params.dip_dur_range[1] / params.dt_s > _MOST_SUMMANDS:
        raise refuse("dip_prob_per_sec", params.dip_prob_per_sec, f"at most {_MOST_PIECES} dips, and short ones")
    if samples * params.smooth_window_s / params.dt_s > _MOST_SUMMANDS or params.smooth_window_s > params.duration_s:
        raise refuse("smooth_window_s", params.smooth_window_s, "a window far shorter than the trace")
