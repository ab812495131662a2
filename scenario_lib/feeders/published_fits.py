"""From published figures to all that a rollout needs: what of it is fitted, and what is assumed.

- *Fitted*: logistic curves of power, mean latency and throughput over log2(batch size) (`logistic_fits.csv`), and a
  mixture of two lognormals through the latency's 50, 90, 95 and 99 % at each batch size (`itl_fits.csv`). Both tables
  are made from `figures.csv` by `scenario_lib.simulation.fitting` and kept as data, so that a fit that ends elsewhere
  on another processor cannot change a scenario.
- *Assumed*: how power moves in time. Only its mean is published. Standard deviation, quantiles and autocorrelations
  are those that were measured of another model, at the batch size nearest in log2, all times the ratio of the mean
  powers of one GPU. That model is the one of the five with measured traces that served the same kind of task on the
  nearest number of GPUs: a Llama for chat and code completion (short answers, so that prefills show as spikes), a
  Qwen3 for reasoning (long answers, a lasting level).
"""

import math
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import ClassVar, TypeVar

from scenario_lib.feeders.checks import STRICT
from scenario_lib.feeders.csv_tables import read_rows
from scenario_lib.feeders.data_files import data_dir
from scenario_lib.feeders.measurements import ITLMixture, LogisticFit, LogisticFits, PowerTraceStatistics
from scenario_lib.feeders.models import ModelData, shipped_model
from scenario_lib.feeders.published_models import PublishedFigures, PublishedModel

Fit = TypeVar("Fit", LogisticFit, ITLMixture)

# Of a row of `PowerTraceStatistics`, what is a power and scales with it.
_POWERS = tuple(field.name for field in fields(PowerTraceStatistics) if field.name.endswith("_w_per_gpu"))


@dataclass(frozen=True, slots=True)
class LogisticRow(LogisticFit):
    """One logistic fit of the catalogue.

    Attributes:
        metric: "power", "latency" or "throughput".
        r_squared: Part of the figures' variance over batch sizes that the fit explains.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    label: str = ""
    metric: str = ""
    r_squared: float = 0.0


@dataclass(frozen=True, slots=True)
class ITLRow(ITLMixture):
    """One latency mixture of the catalogue.

    Attributes:
        quantile_error: Largest miss of the four published quantiles, as a fraction.
        mean_ratio: The mixture's mean over the mean latency by Little's law, which the fit does not know.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    label: str = ""
    quantile_error: float = 0.0
    mean_ratio: float = 0.0


@cache
def logistic_rows() -> dict[str, dict[str, LogisticRow]]:
    """Fits by label and metric."""
    found: dict[str, dict[str, LogisticRow]] = {}
    for row in read_rows(data_dir() / "catalogue" / "logistic_fits.csv", LogisticRow):
        found.setdefault(row.label, {})[row.metric] = row
    return found


@cache
def itl_rows() -> dict[str, tuple[ITLRow, ...]]:
    """Mixtures by label, by increasing batch size."""
    found: dict[str, tuple[ITLRow, ...]] = {}
    for row in read_rows(data_dir() / "catalogue" / "itl_fits.csv", ITLRow):
        found[row.label] = (*found.get(row.label, ()), row)
    return found


def model_data(model: PublishedModel) -> ModelData:
    """Everything that a spec cache is written from."""
    fits = logistic_rows()[model.label]
    return ModelData(
        spec=model.spec(),
        logistic=LogisticFits(*(_plain(LogisticFit, fits[metric]) for metric in ("power", "latency", "throughput"))),
        itl_mixture=tuple(_plain(ITLMixture, row) for row in itl_rows()[model.label]),
        power_trace=tuple(assumed_power_statistics(model, row) for row in model.figures),
        power_shape_of=model.deployment.power_shape_of,
    )


def assumed_power_statistics(model: PublishedModel, figures: PublishedFigures) -> PowerTraceStatistics:
    """Statistics of the power in time with the published mean, shaped like those of `power_shape_of`."""
    rows = shipped_model(model.deployment.power_shape_of).power_trace
    like = min(rows, key=lambda row: abs(math.log2(row.batch_size / figures.batch_size)))
    ratio = figures.power_w / model.deployment.gpus_per_replica / like.mean_w_per_gpu
    scaled = {field: getattr(like, field) * ratio for field in _POWERS}
    return PowerTraceStatistics(**{**asdict(like), "batch_size": figures.batch_size, **scaled})


def _plain(kind: type[Fit], row: Fit) -> Fit:
    """A fit without what the tables know of its quality."""
    return kind(**{field.name: getattr(row, field.name) for field in fields(kind)})
