"""The catalogue: LLMs on H100 and B200 GPUs as the ML.ENERGY Benchmark publishes them, one deployment a label.

Measured and published are, for each batch size, mean power, throughput and four quantiles of the inter-token latency
(`figures.csv`). A rollout needs more than that. What is fitted to these figures and what is assumed on top of them
stands in `published_fits`; two assumptions are here: the latency deadline and the batch sizes that a controller may
set. Source: ML.ENERGY Leaderboard, Benchmark v3 (Apache-2.0, https://ml.energy/leaderboard); see data/README.md.

From published figures to all that a rollout needs: what of it is fitted, and what is assumed.

- *Fitted*: logistic curves of power, mean latency and throughput over log2(batch size) (`logistic_fits.csv`), and a
  mixture of two lognormals through the latency's 50, 90, 95 and 99 % at each batch size (`itl_fits.csv`). Both tables
  are made from `figures.csv` by `scenario_lib.models.fitting` and kept as data, so that a fit that ends elsewhere
  on another processor cannot change a scenario.
- *Assumed*: how power moves in time. Only its mean is published. Standard deviation, quantiles and autocorrelations
  are those that were measured of another model, at the batch size nearest in log2, all times the ratio of the mean
  powers of one GPU. That model is the one of the five with measured traces that served the same kind of task on the
  nearest number of GPUs: a Llama for chat and code completion (short answers, so that prefills show as spikes), a
  Qwen3 for reasoning (long answers, a lasting level).
"""

import difflib
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import ClassVar, TypeVar

from scenario_lib._parsing import data_dir, read_rows
from scenario_lib._values import STRICT, require_count, require_positive
from scenario_lib.errors import UnknownNameError
from scenario_lib.models.measurements import ITLMixture, LogisticFit, LogisticFits, PowerTraceStatistics
from scenario_lib.models.specs import ModelData, ModelSpec, shipped_model, shipped_models

LARGEST_FEASIBLE_BATCH_SIZE = 512
"""That of the five models with measured traces, so that most of the catalogue can share a site with them."""

_DEADLINE_BATCH_SIZE = 128
_DEADLINE_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """What is published of one deployment at one batch size; times in seconds, power of all GPUs together.

    Attributes:
        batch_size: Most requests that the server may batch.
        mean_batch_size: Requests that it batched on average.
        power_w: Mean power of one replica, all its GPUs together (W).
        output_tokens_per_s: Output tokens of one replica per second (1/s).
        itl_p50_s: Median inter-token latency (s); p90, p95 and p99 likewise.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    label: str
    batch_size: int
    mean_batch_size: float
    power_w: float
    output_tokens_per_s: float
    itl_p50_s: float
    itl_p90_s: float
    itl_p95_s: float
    itl_p99_s: float

    def __post_init__(self) -> None:
        require_count("batch_size", self.batch_size, 1)
        for field in ("mean_batch_size", "power_w", "output_tokens_per_s", "itl_p50_s"):
            require_positive(f"{field} of {self.label} at batch size {self.batch_size}", getattr(self, field))

    @property
    def mean_latency_s(self) -> float:
        """Mean time from one token of a request to its next (s), by Little's law: requests served / throughput."""
        return self.mean_batch_size / self.output_tokens_per_s

    @property
    def itl_quantiles_s(self) -> tuple[float, float, float, float]:
        """Inter-token latency at 50, 90, 95 and 99 % (s)."""
        return (self.itl_p50_s, self.itl_p90_s, self.itl_p95_s, self.itl_p99_s)


@dataclass(frozen=True, slots=True)
class Deployment:
    """How one LLM was served.

    Attributes:
        label: Name in experiment files: weights, GPU, GPUs per replica, and task.
        architecture: "dense", "mixture of experts" or "Mamba-Transformer".
        total_params_b, active_params_b: Parameters in all, and those that one token uses (1e9).
        power_shape_of: The model with a measured power trace whose course in time stands in for this one's.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    label: str
    model_id: str
    task: str
    architecture: str
    total_params_b: float
    active_params_b: float
    precision: str
    gpu_model: str
    gpus_per_replica: int
    tensor_parallel: int
    expert_parallel: int
    data_parallel: int
    power_shape_of: str


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """One deployment with its published figures, by increasing batch size."""

    deployment: Deployment
    figures: tuple[PublishedFigures, ...]

    @property
    def label(self) -> str:
        return self.deployment.label

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        return tuple(row.batch_size for row in self.figures)

    @property
    def assumed_deadline_s(self) -> float:
        """Twice the mean latency at batch size 128, rounded up to 10 ms; nobody publishes a deadline.

        Those of the five models with measured traces lie between 1.8 and 4.9 times that latency.
        """
        (row,) = (row for row in self.figures if row.batch_size == _DEADLINE_BATCH_SIZE)
        return math.ceil(_DEADLINE_FACTOR * row.mean_latency_s * 100) / 100

    def spec(self) -> ModelSpec:
        """The deployment as experiments name it; a controller may set the measured powers of two up to 512."""
        served = self.deployment
        powers_of_two = {2**exponent for exponent in range(3, int(math.log2(LARGEST_FEASIBLE_BATCH_SIZE)) + 1)}
        return ModelSpec(
            label=served.label,
            model_id=served.model_id,
            gpu_model=served.gpu_model,
            task=served.task,
            precision=served.precision,
            gpus_per_replica=served.gpus_per_replica,
            tensor_parallel=served.tensor_parallel,
            expert_parallel=served.expert_parallel,
            itl_deadline_s=self.assumed_deadline_s,
            batch_sizes=self.batch_sizes,
            feasible_batch_sizes=tuple(size for size in self.batch_sizes if size in powers_of_two),
        )


@cache
def published_models() -> tuple[PublishedModel, ...]:
    """The catalogue, in alphabetical order of model, then GPU and number of GPUs."""
    folder = data_dir() / "catalogue"
    figures: dict[str, list[PublishedFigures]] = defaultdict(list)
    for row in read_rows(folder / "figures.csv", PublishedFigures):
        figures[row.label].append(row)
    deployments = read_rows(folder / "deployments.csv", Deployment)
    return tuple(PublishedModel(served, tuple(figures[served.label])) for served in deployments)


def published_model(label: str) -> PublishedModel:
    """The deployment of that label.

    Raises:
        UnknownNameError: Not in the catalogue.
    """
    for model in published_models():
        if model.label == label:
            return model
    raise unknown_model(label, [model.label for model in published_models()])


def known_spec(label: str) -> ModelSpec:
    """Specification of a model that ships with measured statistics, or of one of the catalogue.

    Raises:
        UnknownNameError: Neither has that label.
    """
    shipped = {model.spec.label: model.spec for model in shipped_models()}
    if label in shipped:
        return shipped[label]
    labels = [model.label for model in published_models()]
    if label in labels:
        return published_model(label).spec()
    raise unknown_model(label, [*shipped, *labels])


def unknown_model(label: str, known: Sequence[str]) -> UnknownNameError:
    """The error for a model of no known label, with the labels that are like it."""
    like = [other for other in known if label.strip() and label.lower() in other.lower()]
    like = like or difflib.get_close_matches(label, known, cutoff=0.8)
    hint = f"like it are {', '.join(like)}" if like else "'scenario-lib models list' names those that there are"
    return UnknownNameError(f"no model {label!r}; {hint}")


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
