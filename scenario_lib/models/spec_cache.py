"""Write the folder from which openg2g reads models: power traces, latency mixtures and logistic fits.

One folder a model, named by the hash of its spec, with `trace.csv`, `itl_fit.json`, `logistic_fit.json` and, written
last, `_manifest.json`, whose presence tells openg2g that the folder is complete. The traces are synthetic
(`power_traces`), and the manifest says so. The folder that ships is made by

    write_spec_cache(data_dir() / "specs", shipped_models(), overwrite=True)

and the same models and seed give the same bytes: no file holds a date, or the version of an installed package.

Which spec cache rollouts read: a user's own, the shipped one, or one made on the spot for models of the catalogue.

The shipped cache holds the five models with measured statistics. For a model of the catalogue the same files are made
from its figures, in a temporary folder: it takes a tenth of a second, and the same figures give the same bytes.
"""

import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from scenario_lib._parsing import data_dir
from scenario_lib.errors import BuildRefusedError, InvalidSettingError, MissingDataError
from scenario_lib.models.power_traces import (
    GENERATOR_VERSION,
    POWER_DECIMALS,
    POWER_TRACE_SAMPLES,
    POWER_TRACE_SEED,
    synthesize_power_w_per_gpu,
    trace_rng,
)
from scenario_lib.models.published import model_data, published_models
from scenario_lib.models.specs import ModelData, ModelSpec

_SCHEMA_VERSION = 3
_FILES = ("_manifest.json", "trace.csv", "itl_fit.json", "logistic_fit.json")
# The openg2g whose layout this is. openg2g warns when this differs from its own version.
_OPENG2G_VERSION = "0.2.0.post1"


def write_spec_cache(
    directory: Path, models: Sequence[ModelData], *, seed: int = POWER_TRACE_SEED, overwrite: bool = False
) -> tuple[Path, ...]:
    """Write one folder a model below `directory`, which is made if need be and may hold other models' folders.

    Everything is written to a temporary folder inside `directory` first, and each model's folder then moved to its
    name; one that it replaces goes only once the new one is there.

    Args:
        directory: Folder to give to openg2g's `load` functions.
        models: Models, each of another `cache_hash()`.
        seed: Seed of the power traces.
        overwrite: Whether a model's folder that exists may be replaced.

    Returns:
        The folder of each model.

    Raises:
        BuildRefusedError: A model's folder exists, and `overwrite` is off; nothing was written.
        InvalidSettingError: Two models share a hash, or power statistics contradict each other; nothing was written.
    """
    targets = tuple(Path(directory) / model.spec.cache_hash() for model in models)
    _require_free(targets, models, overwrite)
    Path(directory).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".writing-", dir=directory) as staging:
        for target, model in zip(targets, models, strict=True):
            _write_model(Path(staging) / target.name, model, seed)
        for target in targets:
            _move_into_place(Path(staging) / target.name, target)
    return targets


def _require_free(targets: Sequence[Path], models: Sequence[ModelData], overwrite: bool) -> None:
    if len(set(targets)) != len(targets):
        labels = ", ".join(f"{model.spec.label} ({model.spec.cache_hash()})" for model in models)
        raise InvalidSettingError(f"models share a cache hash: {labels}; expected each measurement only once")
    existing = [target for target in targets if target.exists()]
    if existing and not overwrite:
        raise BuildRefusedError(
            f"{', '.join(map(str, existing))}: exists already; give another directory, or allow it to be overwritten"
        )
    others = [path for target in existing for path in _others(target)]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise BuildRefusedError(
            f"{', '.join(map(str, others[:3]))}{more}: no file of a spec cache, and never removed; move it away, or "
            f"give another directory"
        )


def _others(folder: Path) -> list[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return [folder]
    return sorted(path for path in folder.iterdir() if path.name not in _FILES or path.is_symlink() or path.is_dir())


def _move_into_place(new: Path, target: Path) -> None:
    old = new.with_name(f"{new.name}-replaced")
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise


def _write_model(folder: Path, model: ModelData, seed: int) -> None:
    folder.mkdir()
    label = model.spec.label
    (folder / "trace.csv").write_text(_trace_csv(model, seed), encoding="utf-8", newline="\n")
    mixtures = {str(row.batch_size): asdict(row) for row in model.itl_mixture}
    for row in mixtures.values():
        del row["batch_size"]
    _write_json(
        folder / "itl_fit.json", {"schema": "itl_fit.lognormal_mixture_2", "model_label": label, "per_batch": mixtures}
    )
    _write_json(folder / "logistic_fit.json", {"schema": "logistic_v1", "model_label": label, **asdict(model.logistic)})
    _write_json(folder / "_manifest.json", _manifest(model, seed))


def _trace_csv(model: ModelData, seed: int) -> str:
    """Power of one replica, all its GPUs together (W), at each second, one batch size after another."""
    lines = ["batch_size,relative_time_s,power_total_W"]
    for row in model.power_trace:
        trace_w_per_gpu = synthesize_power_w_per_gpu(row, trace_rng(seed, model.spec.label, row.batch_size))
        for time_s, power_w in enumerate(trace_w_per_gpu * model.spec.gpus_per_replica):
            lines.append(f"{row.batch_size},{time_s},{power_w:.{POWER_DECIMALS}f}")
    return "\n".join(lines) + "\n"


def _manifest(model: ModelData, seed: int) -> dict[str, object]:
    fields = asdict(model.spec)
    return {
        "schema_version": _SCHEMA_VERSION,
        "spec_hash": model.spec.cache_hash(),
        "spec": {"model_label": fields.pop("label"), **fields},
        "openg2g_version": _OPENG2G_VERSION,
        "mlenergy_data_version": "not used: the power traces are synthetic",
        "synthetic": True,
        **_origin(model),
        "licence": "Apache-2.0",
        "generator": "scenario_lib.models.power_traces",
        "generator_version": GENERATOR_VERSION,
        "generator_seed": seed,
        "samples_per_trace": POWER_TRACE_SAMPLES,
    }


def _origin(model: ModelData) -> dict[str, object]:
    if model.power_shape_of is None:
        return {
            "description": (
                "The power traces are synthetic: made to have the statistics of measured ones, which are not "
                "included. Latency mixtures and logistic fits are those of the measurements."
            ),
            "source": "ML.ENERGY Benchmark v3, as compiled by openg2g 0.1",
        }
    return {
        "description": (
            "The power traces are synthetic: their means are published, their course in time is assumed to be that "
            f"of {model.power_shape_of}. Latency mixtures and logistic fits go through published figures."
        ),
        "source": "ML.ENERGY Leaderboard, Benchmark v3",
    }


def _write_json(path: Path, content: dict[str, object]) -> None:
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


logger = logging.getLogger(__name__)


@contextmanager
def opened_specs(models: Sequence[ModelSpec], specs_dir: str | Path | None) -> Iterator[Path]:
    """A folder with the data of these models, as long as the context lasts.

    A model is known by what was measured of it (its `cache_hash`), so that an experiment may give a model of the
    catalogue another label, another deadline, or fewer feasible batch sizes.

    Raises:
        MissingDataError: `specs_dir` is not a directory.
    """
    if specs_dir is not None:
        yield _given(Path(specs_dir).resolve())
        return
    shipped = data_dir() / "specs"
    absent = {spec.cache_hash() for spec in models if not (shipped / spec.cache_hash()).is_dir()}
    made = [model for model in published_models() if model.spec().cache_hash() in absent] if absent else []
    if not made:
        yield shipped
        return
    with TemporaryDirectory(prefix="scenario-lib-specs-") as temporary:
        folder = Path(temporary)
        logger.debug("data made from published figures: %s", ", ".join(model.label for model in made))
        write_spec_cache(folder, [model_data(model) for model in made])
        for spec in models:
            if spec.cache_hash() not in absent:
                shutil.copytree(shipped / spec.cache_hash(), folder / spec.cache_hash(), dirs_exist_ok=True)
        yield folder


def _given(folder: Path) -> Path:
    if not folder.is_dir():
        raise MissingDataError(f"{folder}: no such directory; --specs-dir expects a spec cache in openg2g's layout")
    return folder
