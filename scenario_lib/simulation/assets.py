"""What rollouts need beyond the scenario: power templates, latency fits, logistic fits, the training trace.

Read from a spec cache in openg2g's layout (`spec_folders` says which), once per process.

Obtain measured power traces, latency and fits of ML.ENERGY Benchmark v3, through openg2g's own loader.
"""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from openg2g.controller.ofo import LogisticModelStore
from openg2g.datacenter.config import InferenceModelSpec
from openg2g.datacenter.workloads.inference import InferenceData
from openg2g.datacenter.workloads.training import TrainingTrace

from scenario_lib._arrays import Floats, Ints
from scenario_lib._files import read_bytes, require_regular
from scenario_lib._values import as_path
from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.execution.tasks import one_line
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import as_experiment
from scenario_lib.models.power_traces import make_training_trace
from scenario_lib.models.spec_cache import opened_specs
from scenario_lib.models.specs import ModelSpec

_DIGESTED_FILES = ("trace.csv", "itl_fit.json", "logistic_fit.json")


@dataclass(frozen=True, slots=True, repr=False)
class Assets:
    """Loaded data of one experiment's models.

    Attributes:
        inference: Power templates (1 s) and latency mixtures of all models.
        logistic: Power, latency and throughput fits, which the OFO controller differentiates.
        training_trace: Single-GPU trace that a training job scales.
    """

    inference: InferenceData
    logistic: LogisticModelStore
    training_trace: TrainingTrace

    def __repr__(self) -> str:
        labels = ", ".join(sorted(self.logistic.power_fits))
        return f"Assets(models {labels})"


def openg2g_spec(spec: ModelSpec) -> InferenceModelSpec:
    """The same model specification as openg2g's type."""
    fields = asdict(spec)
    return InferenceModelSpec(model_label=fields.pop("label"), **fields)


def load_assets(experiment: Experiment | str | Path, specs_dir: str | Path | None = None) -> Assets:
    """Data of the experiment's models, cached in this process.

    Args:
        experiment: An experiment, or what `load_experiment` takes.
        specs_dir: Spec cache in openg2g's layout; None means the shipped one.

    Raises:
        MissingDataError: No cache directory, or none for one of the models.
        DataFileError: A file of the cache cannot be read, or lacks a feasible batch size.
    """
    experiment = as_experiment("experiment", experiment)
    given = None if specs_dir is None else as_path("specs_dir", specs_dir).resolve()
    return _load(experiment.models, given, experiment.datacenter.template_duration_s)


@functools.lru_cache(maxsize=4)
def _load(models: tuple[ModelSpec, ...], specs_dir: Path | None, duration_s: float) -> Assets:
    with opened_specs(models, specs_dir) as folder:
        return _checked(models, folder, duration_s)


def _checked(models: tuple[ModelSpec, ...], folder: Path, duration_s: float) -> Assets:
    for spec in models:
        _require_files(folder, spec)
    try:
        inference, logistic = _read(models, folder, duration_s)
    except _UNREADABLE as error:
        raise DataFileError(
            f"{_culprit(models, folder, duration_s)}: a file of this spec cache cannot be read ({error}); "
            f"generate the cache again"
        ) from None
    for spec in models:
        _require_batch_sizes(folder, spec, inference)
        _require_figures(folder, spec, inference, logistic)
    return Assets(inference, logistic, make_training_trace())


# What openg2g's loaders raise on files that hold something else than they should.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


def _read(models: tuple[ModelSpec, ...], folder: Path, duration_s: float) -> tuple[InferenceData, LogisticModelStore]:
    specs = tuple(openg2g_spec(spec) for spec in models)
    return InferenceData.load(folder, specs, duration_s=duration_s, dt_s=1), LogisticModelStore.load(folder, specs)


def _culprit(models: tuple[ModelSpec, ...], folder: Path, duration_s: float) -> Path:
    """Folder of the first model whose files cannot be read."""
    for spec in models:
        try:
            _read((spec,), folder, duration_s)
        except _UNREADABLE:
            return folder / spec.cache_hash()
    return folder


def _require_files(folder: Path, spec: ModelSpec) -> None:
    for path in (folder / spec.cache_hash()).glob("*"):
        require_regular(path)
    for name in _DIGESTED_FILES:
        path = folder / spec.cache_hash() / name
        if not path.is_file():
            raise MissingDataError(
                f"{path}: no such file; the spec cache has no data for model {spec.label}. Obtain them with "
                f"'scenario-lib data fetch', or leave --specs-dir away to use the shipped synthetic traces"
            )


def _require_batch_sizes(folder: Path, spec: ModelSpec, inference: InferenceData) -> None:
    have = set(inference.power_templates.batch_sizes(spec.label)) & set(inference.itl_fits.distributions[spec.label])
    missing = sorted(set(spec.feasible_batch_sizes) - have)
    if missing:
        raise DataFileError(
            f"{folder / spec.cache_hash()}: no power trace or latency fit of {spec.label} at batch sizes {missing}; "
            f"expected all of {list(spec.feasible_batch_sizes)}"
        )


def _require_figures(folder: Path, spec: ModelSpec, inference: InferenceData, logistic: LogisticModelStore) -> None:
    """Every power finite and not negative, every fit there and finite: a NaN here would be one in every result."""
    place = folder / spec.cache_hash()
    for batch in spec.feasible_batch_sizes:
        power_w = inference.power_templates.template(spec.label, batch)
        if not (np.isfinite(power_w).all() and power_w.min() >= 0):
            raise DataFileError(f"{place / 'trace.csv'}: powers at batch size {batch} are not all finite and positive")
        mixture = vars(inference.itl_fits.distributions[spec.label][batch])
        if not np.isfinite(list(mixture.values())).all():
            raise DataFileError(f"{place / 'itl_fit.json'}: {mixture} at batch size {batch}; expected finite numbers")
    for name in ("power", "latency", "throughput"):
        fit = getattr(logistic, f"{name}_fits").get(spec.label)
        if fit is None or not np.isfinite([fit.L, fit.x0, fit.k, fit.b0]).all():
            raise DataFileError(f"{place / 'logistic_fit.json'}: {name} is {fit}; expected finite L, x0, k and b0")


def replica_tokens_per_s(logistic: LogisticModelStore, label: str, batch_sizes: Ints) -> Floats:
    """Output tokens of one replica of a model (1/s) at batch sizes, by its throughput fit; of the shape of these."""
    fit = logistic.throughput(label)
    sizes, position = np.unique(batch_sizes, return_inverse=True)
    return np.array([float(fit.eval(int(size))) for size in sizes])[position].reshape(np.shape(batch_sizes))


def assets_files(models: tuple[ModelSpec, ...], folder: Path) -> list[Path]:
    """The files of a spec cache that rollouts of these models read.

    Raises:
        MissingDataError: One of them is not there.
    """
    for spec in models:
        _require_files(folder, spec)
    return [folder / spec.cache_hash() / name for spec in models for name in _DIGESTED_FILES]


def assets_digest(models: tuple[ModelSpec, ...], specs_dir: str | Path | None = None) -> str:
    """SHA-256 over the cache files that rollouts of these models read, manifests apart (they carry dates)."""
    digest = hashlib.sha256()
    with opened_specs(models, specs_dir) as folder:
        for path in assets_files(models, folder):
            digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            digest.update(hashlib.sha256(read_bytes(path)).digest())
    return digest.hexdigest()


_DATA_SET = "ml-energy/benchmark-v3"


def fetch_measured_specs(out: Path, models: Sequence[ModelSpec], mlenergy_data_dir: Path | None = None) -> None:
    """Write the spec cache of these models from measurements; models already there are kept.

    Args:
        out: Directory of the cache.
        mlenergy_data_dir: A local copy of the data set; None downloads it with the user's token (HF_TOKEN).

    Raises:
        MissingDataError: The data could not be obtained; the message says what to do.
    """
    specs = tuple(openg2g_spec(spec) for spec in models)
    try:
        InferenceData.ensure(out, specs, mlenergy_data_dir=mlenergy_data_dir)
        LogisticModelStore.ensure(out, specs, mlenergy_data_dir=mlenergy_data_dir)
    except Exception as error:  # noqa: BLE001 - the hub's client raises classes of several packages
        raise MissingDataError(
            f"{out}: the measured data could not be obtained ({one_line(error)}). They are gated: accept "
            f"the terms of the data set {_DATA_SET} on the Hugging Face Hub and set HF_TOKEN to a token that may read "
            f"it, or give a local copy with --mlenergy-data-dir. Without them, leave --specs-dir away: the shipped "
            f"synthetic traces have the same statistics"
        ) from None
