"""Synthetic power traces of one GPU, with the statistics of measured ones.

The measured traces are not shipped; their statistics are. A trace made here has the mean, standard deviation,
quantiles and autocorrelations of the measurement, in values that are otherwise as plain as these allow
(`power_levels`), in an otherwise random order (`power_order`). Whatever else the measurement had, such as a slow
start or a pattern of spikes, is not in it.

Length: 601 samples, one a second, for every measurement, be it 40 s or an hour long. openg2g plays a template of
600 s, which has 601 points, over and over, and takes its last point from the start of the recording. A trace made
here ends on the value it starts with, so that what is played is, sample by sample, what was calibrated. Repeating
a measurement of 70 s instead would play the same 70 s nine times and correlate the trace with itself at that period.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.measurements import AUTOCORRELATION_LAGS_S, QUANTILES, PowerTraceStatistics
from scenario_lib.simulation.power_levels import sorted_levels_w
from scenario_lib.simulation.power_order import arrange_in_time, autocorrelation

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
    levels = sorted_levels_w(statistics, n_samples).round(POWER_DECIMALS)
    trace = arrange_in_time(levels, statistics.autocorrelations, rng)
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
