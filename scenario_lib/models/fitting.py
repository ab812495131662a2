"""A logistic curve over log2(batch size) through published figures, by least squares.

For a given midpoint and steepness the curve is linear in its two levels, which then have a closed form; these two are
searched on a grid, and no optimiser decides where the search ends.

A mixture of two lognormals through four published quantiles of the inter-token latency.

Five parameters stand against four quantiles: the weight of stalls, median and width of the steady part, how far
stalls lie above it, and their width. The last is drawn gently towards 0.3, so that quantiles which say nothing about
it leave it there. The shift `loc` of openg2g's mixture is 0: quantiles from the median up do not identify it.
Levenberg-Marquardt on the logarithms of the quantiles, from several starts, keeping the best.

The catalogue's two tables of fits, made from its published figures.

`python -m scenario_lib.models.fitting FOLDER` writes them; those that ship lie in `data/catalogue`.
"""

import csv
import io
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib.models.measurements import ITLMixture, LogisticFit
from scenario_lib.models.published import (
    LARGEST_FEASIBLE_BATCH_SIZE,
    ITLRow,
    LogisticRow,
    PublishedModel,
    published_models,
)

# Batch sizes are between 8 and 4096: a midpoint outside them makes the curve nearly exponential, or nearly flat.
_MIDPOINTS = np.linspace(2.0, 13.0, 111)
_STEEPNESSES = np.geomspace(0.25, 4.0, 81)
_LOGISTIC_DIGITS = 6


@dataclass(frozen=True, slots=True)
class FittedLogistic:
    """A fit and the part of the variance that it explains (R^2)."""

    fit: LogisticFit
    r_squared: float


def fit_logistic(batch_sizes: Floats, values: Floats) -> FittedLogistic:
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
        L=_rounded_fit(rise),
        x0=_rounded_fit(_MIDPOINTS[i]),
        k=_rounded_fit(_STEEPNESSES[j]),
        b0=_rounded_fit(values.mean() - rise * curves[i, j].mean()),
    )
    return FittedLogistic(fit, float(1.0 - squares[i, j] / (deviations**2).sum()))


def _rounded_fit(value: float) -> float:
    return float(f"{value:.{_LOGISTIC_DIGITS}g}")


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
_MIXTURE_DIGITS = 6


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


def _mixture(batch_size: int, shape: Floats, median_s: float) -> ITLMixture:
    weight, log_scale, sigma, above, stall_sigma = (float(value) for value in shape)
    pi_stall = round(weight, _MIXTURE_DIGITS)
    return ITLMixture(
        batch_size=batch_size,
        loc=0.0,
        pi_steady=round(1.0 - pi_stall, _MIXTURE_DIGITS),
        sigma_steady=_rounded_mixture(sigma),
        scale_steady=_rounded_mixture(median_s * math.exp(log_scale)),
        pi_stall=pi_stall,
        sigma_stall=_rounded_mixture(stall_sigma),
        scale_stall=_rounded_mixture(median_s * math.exp(log_scale + above)),
    )


def _starts(logs: Floats) -> list[Floats]:
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


def _descend(shape: Floats, logs: Floats) -> Floats:
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


def _step(shape: Floats, misses: Floats, slopes: Floats, logs: Floats, damping: float) -> tuple[Floats, Floats, float]:
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


def _slopes(shape: Floats, misses: Floats, logs: Floats) -> Floats:
    """Derivatives of the misses by each parameter in units of its range, shape (5, 5)."""
    columns = []
    for i, width in enumerate(1e-4 * _RANGE):
        moved = shape.copy()
        moved[i] += width if moved[i] + width < _HIGHEST[i] else -width
        columns.append((_misses(moved, logs) - misses) / (moved[i] - shape[i]) * _RANGE[i])
    return np.stack(columns, axis=1)


def _misses(shape: Floats, logs: Floats) -> Floats:
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


def _rounded_mixture(value: float) -> float:
    return float(f"{value:.{_MIXTURE_DIGITS}g}")


_LOGISTIC = ("label", "metric", "L", "x0", "k", "b0", "r_squared")
_ITL = (
    *("label", "batch_size", "loc", "pi_steady", "sigma_steady", "scale_steady"),
    *("pi_stall", "sigma_stall", "scale_stall", "quantile_error", "mean_ratio"),
)


def write_fits(folder: Path, models: Sequence[PublishedModel]) -> None:
    """Write `logistic_fits.csv` and `itl_fits.csv` of these models."""
    logistic, itl = [], []
    for model in models:
        mixtures = [fit_mixture(row.batch_size, row.itl_quantiles_s) for row in model.figures]
        logistic += list(_logistic_rows(model, mixtures))
        itl += list(_itl_rows(model, mixtures))
    _write(folder / "logistic_fits.csv", _LOGISTIC, logistic)
    _write(folder / "itl_fits.csv", _ITL, itl)


def _logistic_rows(model: PublishedModel, mixtures: list[FittedMixture]) -> Iterator[LogisticRow]:
    """Fits over the batch sizes up to the largest feasible one, where OFO differentiates them."""
    pairs = [(row, fitted) for row, fitted in zip(model.figures, mixtures, strict=True)]
    pairs = [(row, fitted) for row, fitted in pairs if row.batch_size <= LARGEST_FEASIBLE_BATCH_SIZE]
    sizes = np.array([float(row.batch_size) for row, _ in pairs])
    for metric, values in (
        ("power", [row.power_w for row, _ in pairs]),
        ("latency", [fitted.mean_s for _, fitted in pairs]),
        ("throughput", [row.output_tokens_per_s for row, _ in pairs]),
    ):
        fitted = fit_logistic(sizes, np.array(values))
        yield LogisticRow(**asdict(fitted.fit), label=model.label, metric=metric, r_squared=round(fitted.r_squared, 3))


def _itl_rows(model: PublishedModel, mixtures: list[FittedMixture]) -> Iterator[ITLRow]:
    for row, fitted in zip(model.figures, mixtures, strict=True):
        yield ITLRow(
            **asdict(fitted.mixture),
            label=model.label,
            quantile_error=round(fitted.quantile_error, 4),
            mean_ratio=round(fitted.mean_s / row.mean_latency_s, 3),
        )


def _write(path: Path, columns: Sequence[str], rows: Sequence[LogisticRow | ITLRow]) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows([getattr(row, column) for column in columns] for row in rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_fits(Path(sys.argv[1]), published_models())
