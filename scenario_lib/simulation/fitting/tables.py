"""The catalogue's two tables of fits, made from its published figures.

`python -m scenario_lib.simulation.fitting.tables FOLDER` writes them; those that ship lie in `data/catalogue`.
"""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from scenario_lib.feeders.published_fits import ITLRow, LogisticRow
from scenario_lib.feeders.published_models import LARGEST_FEASIBLE_BATCH_SIZE, PublishedModel, published_models
from scenario_lib.simulation.fitting.latency import FittedMixture, fit_mixture
from scenario_lib.simulation.fitting.logistic import fit_logistic

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
