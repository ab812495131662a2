"""The LLMs that sites serve: what they are, and the measured facts that their simulation rests on.

The shipped models lie in `data/models/<label>.toml`, one file each; the tables of a file carry the names of the
types and fields here and in `measurements`. Neither numpy nor openg2g is loaded, so that reading a model is cheap.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from scenario_lib._parsing import MODEL, data_dir, parse_settings_file, read_toml
from scenario_lib._values import (
    STRICT,
    count,
    few,
    positive,
    refuse,
    require_at_most_entries,
    require_bounds,
    require_count,
    require_name,
)
from scenario_lib.errors import UnknownNameError
from scenario_lib.models.measurements import ITLMixture, LogisticFit, LogisticFits, PowerTraceStatistics

__all__ = [
    "ITLMixture",
    "LogisticFit",
    "LogisticFits",
    "ModelData",
    "ModelSpec",
    "PowerTraceStatistics",
    "load_model",
    "shipped_model",
    "shipped_models",
]

_LARGEST_BATCH, _MOST_BATCH_SIZES = 1_000_000, 1000
_BOUNDS = {
    "gpus_per_replica": count(1, 10_000),
    "tensor_parallel": count(1, 10_000),
    "expert_parallel": count(1, 10_000),
    "itl_deadline_s": positive(3600),
}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One LLM as it is served, in the setting it was measured in.

    Attributes:
        label: Name used throughout, such as "Llama-3.1-8B".
        model_id: Name of the weights, as on the Hugging Face Hub.
        gpu_model: GPU that was measured, such as "H100".
        task: Benchmark task that was measured.
        precision: Precision of the weights, such as "bfloat16".
        gpus_per_replica: GPUs that one replica occupies.
        tensor_parallel: Tensor-parallel degree.
        expert_parallel: Expert-parallel degree.
        itl_deadline_s: Inter-token latency that OFO tries to keep (s).
        batch_sizes: Batch sizes that were measured, increasing.
        feasible_batch_sizes: Those of them that a controller may set, increasing.
        fit_exclude_batch_sizes: Those left out of the logistic fits, increasing.

    Raises:
        InvalidSettingError: A field is out of range, or a batch size was not measured.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    label: str
    model_id: str
    gpu_model: str
    task: str
    precision: str
    gpus_per_replica: int
    tensor_parallel: int
    expert_parallel: int
    itl_deadline_s: float
    batch_sizes: tuple[int, ...]
    feasible_batch_sizes: tuple[int, ...]
    fit_exclude_batch_sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in ("label", "model_id", "gpu_model", "task", "precision"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field).strip():
                raise refuse(f"{field} of model {self.label!r}", getattr(self, field), "a name")
        require_name("label of a model", self.label)
        require_bounds(self, _BOUNDS, f"{{}} of model {self.label}")
        for field in ("batch_sizes", "feasible_batch_sizes"):
            if not getattr(self, field):
                raise refuse(f"{field} of model {self.label}", (), "at least one batch size")
        for field in ("batch_sizes", "feasible_batch_sizes", "fit_exclude_batch_sizes"):
            _require_batch_sizes(f"{field} of model {self.label}", getattr(self, field), self.batch_sizes)

    def cache_hash(self) -> str:
        """Name of this model's folder in a spec cache: 16 hexadecimal digits, as openg2g computes them.

        Covers what was measured and how; label, deadline and feasible batch sizes may change without new data.
        """
        measured = {
            "model_id": self.model_id,
            "gpu_model": self.gpu_model,
            "task": self.task,
            "precision": self.precision,
            "gpus_per_replica": self.gpus_per_replica,
            "tensor_parallel": self.tensor_parallel,
            "expert_parallel": self.expert_parallel,
            "batch_sizes": sorted(self.batch_sizes),
            "fit_exclude_batch_sizes": sorted(self.fit_exclude_batch_sizes),
        }
        return hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ModelData:
    """Everything a model file holds; the attributes are named as its tables.

    Attributes:
        spec: What is served.
        logistic: Power, latency and throughput over batch size.
        itl_mixture: Latency distributions, by increasing batch size.
        power_trace: Power statistics, by increasing batch size.
        power_shape_of: Label of the model whose measured course of power stands in for this one's; None if it is its
            own.

    Raises:
        InvalidSettingError: Rows out of order, of a batch size that was not measured, or missing for a feasible one.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    spec: ModelSpec
    logistic: LogisticFits
    itl_mixture: tuple[ITLMixture, ...]
    power_trace: tuple[PowerTraceStatistics, ...]
    power_shape_of: str | None = None

    def __post_init__(self) -> None:
        rows: tuple[ITLMixture | PowerTraceStatistics, ...]
        for field, rows in (("itl_mixture", self.itl_mixture), ("power_trace", self.power_trace)):
            found = [row.batch_size for row in rows]
            _require_batch_sizes(f"batch_size in {field} of model {self.spec.label}", found, self.spec.batch_sizes)
            missing = sorted(set(self.spec.feasible_batch_sizes) - set(found))
            if missing:
                raise refuse(f"{field} of model {self.spec.label}", found, f"a row also for batch sizes {missing}")


def load_model(path: Path) -> ModelData:
    """Model described by one TOML file in the layout of `data/models/`.

    Raises:
        MissingDataError: No such file.
        DataFileError: Not TOML, or a table, key or value is not what it should be; names the file and the field.
    """
    return parse_settings_file(ModelData, read_toml(Path(path), MODEL), str(path))


@cache
def shipped_models() -> tuple[ModelData, ...]:
    """The models that ship with scenario-lib, in alphabetical order of their labels."""
    return tuple(load_model(path) for path in sorted((data_dir() / "models").glob("*.toml")))


def shipped_model(label: str) -> ModelData:
    """The shipped model of that label.

    Raises:
        UnknownNameError: No model of that label ships; names those that do.
    """
    known = {model.spec.label: model for model in shipped_models()}
    if label not in known:
        raise UnknownNameError(f"no model {label!r} ships with scenario-lib; known are {few(known)}")
    return known[label]


def _require_batch_sizes(field: str, found: Sequence[int], measured: Sequence[int]) -> None:
    require_at_most_entries(field, found, _MOST_BATCH_SIZES)
    for batch_size in found:
        require_count(field, batch_size, 1, _LARGEST_BATCH)
    if any(later <= earlier for earlier, later in pairwise(found)):
        raise refuse(field, tuple(found), "batch sizes that increase")
    if not set(found) <= set(measured):
        raise refuse(field, tuple(found), f"only measured batch sizes, of {tuple(measured)}")
