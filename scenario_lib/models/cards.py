"""What a person wants to know of a model before deploying it: one line for a list, one page for a look.

The five models with measured traces and those of the catalogue, side by side; each says what its figures rest on.
"""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from scenario_lib.models.measurements import ITLMixture
from scenario_lib.models.published import PublishedModel, itl_rows, logistic_rows, published_models, unknown_model
from scenario_lib.models.specs import ModelData, ModelSpec, shipped_models

_MEASURED = "measured: statistics of power traces and latency fits of the measurements; the traces are synthetic"
_PUBLISHED = "published: mean power, throughput and latency quantiles at each batch size"


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """One replica at one batch size; power is that of all its GPUs together, times are those between two tokens."""

    batch_size: int
    power_w: float
    output_tokens_per_s: float
    itl_p50_s: float
    itl_p90_s: float
    itl_p95_s: float
    itl_p99_s: float

    @property
    def joule_per_token(self) -> float:
        return self.power_w / self.output_tokens_per_s


@dataclass(frozen=True, slots=True)
class FitQuality:
    """How near the fits come to the published figures.

    Attributes:
        r_squared: Of the logistic fits of power, latency and throughput.
        quantile_error: Largest miss of a latency quantile over all batch sizes, as a fraction.
        mean_ratio: Smallest and largest ratio of the mixtures' mean to the mean latency by Little's law.
    """

    r_squared: dict[str, float]
    quantile_error: float
    mean_ratio: tuple[float, float]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model as it is served, with its figures.

    Attributes:
        basis: What the figures are: measured, published, fitted, assumed.
        quality: Of the fits; None for a model whose fits came with the measurements.
    """

    spec: ModelSpec
    figures: tuple[BatchFigures, ...]
    basis: tuple[str, ...]
    quality: FitQuality | None

    @property
    def feasible(self) -> tuple[BatchFigures, ...]:
        """The figures at the batch sizes that a controller may set."""
        return tuple(row for row in self.figures if row.batch_size in self.spec.feasible_batch_sizes)

    def to_dict(self) -> dict[str, Any]:
        """The card as plain values."""
        figures = [{**asdict(row), "joule_per_token": row.joule_per_token} for row in self.figures]
        return {**asdict(self), "figures": figures}


def model_cards(gpu: str | None = None, task: str | None = None) -> tuple[ModelCard, ...]:
    """The models that there are, those with measured traces first; on one kind of GPU or task, in any case."""

    def asked(spec: ModelSpec) -> bool:
        pairs = ((gpu, spec.gpu_model), (task, spec.task))
        return all(wanted is None or wanted.lower() == found.lower() for wanted, found in pairs)

    return tuple(card for card in _all_cards() if asked(card.spec))


def model_card(label: str) -> ModelCard:
    """The card of one model.

    Raises:
        UnknownNameError: No model of that label; names those that are like it.
    """
    cards = {card.spec.label.lower(): card for card in _all_cards()}
    if label.lower() in cards:
        return cards[label.lower()]
    raise unknown_model(label, [card.spec.label for card in cards.values()])


@cache
def _all_cards() -> tuple[ModelCard, ...]:
    shipped = (_shipped_card(model) for model in shipped_models())
    return (*shipped, *(_published_card(model) for model in published_models()))


def _shipped_card(model: ModelData) -> ModelCard:
    figures = tuple(
        BatchFigures(
            row.batch_size,
            row.mean_w_per_gpu * model.spec.gpus_per_replica,
            model.logistic.throughput.at(row.batch_size),
            *_quantiles_s(mixture),
        )
        for row, mixture in zip(model.power_trace, model.itl_mixture, strict=True)
    )
    return ModelCard(model.spec, figures, (_MEASURED, "fitted: throughput, as given by the logistic fit"), None)


def _quantiles_s(mixture: ITLMixture) -> tuple[float, float, float, float]:
    p50, p90, p95, p99 = (mixture.quantile_s(probability) for probability in (0.50, 0.90, 0.95, 0.99))
    return (p50, p90, p95, p99)


def _published_card(model: PublishedModel) -> ModelCard:
    figures = tuple(
        BatchFigures(row.batch_size, row.power_w, row.output_tokens_per_s, *row.itl_quantiles_s)
        for row in model.figures
    )
    rows = itl_rows()[model.label]
    quality = FitQuality(
        r_squared={metric: row.r_squared for metric, row in logistic_rows()[model.label].items()},
        quantile_error=max(row.quantile_error for row in rows),
        mean_ratio=(min(row.mean_ratio for row in rows), max(row.mean_ratio for row in rows)),
    )
    basis = (
        _PUBLISHED,
        "fitted: curves over the batch size, latency as a mixture of two lognormals",
        f"assumed: the course of power in time, which is that of {model.deployment.power_shape_of}; the deadline",
    )
    return ModelCard(model.spec(), figures, basis, quality)
