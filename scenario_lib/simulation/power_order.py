"""The order in time of the values of a synthetic power trace: an arrangement with given autocorrelations.

First the values are arranged by iterated amplitude-adjusted Fourier transform (Schreiber and Schmitz, Physical
Review Letters 77, 635, 1996, https://doi.org/10.1103/PhysRevLett.77.635): spectrum and values are imposed in turn.
The few thousandths to hundredths by which the autocorrelations then still miss are removed by swapping pairs.
"""

import numpy as np
from numpy.typing import NDArray

from scenario_lib.feeders.measurements import AUTOCORRELATION_LAGS_S

_Floats = NDArray[np.float64]

_ROUNDS = 100
_SWAPS = 400
_PAIRS_TRIED_PER_SWAP = 512
_AUTOCORRELATION_MET = 0.002
# Correlation times tried for the lasting part of the process (s).
_CORRELATION_TIMES_S = np.geomspace(1.0, 200.0, 80)


def autocorrelation(values: _Floats, lag: int) -> float:
    """Sum of (x[t] - m)(x[t + lag] - m) over the sum of (x[t] - m)^2, with m the mean of all values."""
    deviations = values - values.mean()
    return float(deviations[:-lag] @ deviations[lag:] / (deviations @ deviations))


def arrange_in_time(levels: _Floats, autocorrelations: tuple[float, ...], rng: np.random.Generator) -> _Floats:
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


def _acf(period: int, wanted: _Floats) -> _Floats:
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


def _cycle(levels: _Floats, marked: int, acf: _Floats, rng: np.random.Generator) -> tuple[_Floats, int]:
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


def _swap_until_met(values: _Floats, wanted: _Floats, rng: np.random.Generator) -> _Floats:
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


def _swap_effects(deviations: _Floats, pairs: NDArray[np.int64]) -> _Floats:
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
