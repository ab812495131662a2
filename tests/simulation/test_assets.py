"""Assets: what a spec cache gives, and which damaged caches are refused by name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.models.specs import shipped_model
from scenario_lib.simulation.assets import assets_digest, load_assets, openg2g_spec

MODEL = shipped_model("Llama-3.1-8B")


@pytest.fixture
def cache(specs_dir: Path, tmp_path: Path) -> Path:
    """A copy of a whole spec cache."""
    return Path(shutil.copytree(specs_dir, tmp_path / "specs"))


@pytest.fixture
def folder(cache: Path) -> Path:
    """The folder of one of the village's models in it."""
    return cache / MODEL.spec.cache_hash()


def edit_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_templates_and_fits_of_the_cache(specs_dir: Path) -> None:
    experiment = load_experiment("ieee13")
    assets = load_assets(experiment, specs_dir)
    for spec in experiment.models:
        for batch in spec.feasible_batch_sizes:
            assert len(assets.inference.power_templates.template(spec.label, batch)) == 601
            assert batch in assets.inference.itl_fits.distributions[spec.label]
    rows = (specs_dir / MODEL.spec.cache_hash() / "trace.csv").read_text(encoding="utf-8").splitlines()
    first = [float(row.split(",")[2]) for row in rows[1:4]]
    assert rows[1].startswith("8,0.0,")
    assert assets.inference.power_templates.template("Llama-3.1-8B", 8)[:3].tolist() == first
    power = assets.logistic.power("Llama-3.1-8B")
    assert (power.L, power.x0, power.k, power.b0) == (210.919572736, 5.46153846154, 1.26384820293, 480.397160419)


def test_the_shipped_cache_is_the_default(village: Experiment, specs_dir: Path) -> None:
    shipped = load_assets(village)
    assert load_assets(village) is shipped
    assert assets_digest(village.models, data_dir() / "specs") == assets_digest(village.models)
    assert load_assets(village, str(specs_dir)) is load_assets(village, specs_dir)
    assert load_assets(village, specs_dir) is not shipped
    assert assets_digest(village.models) != assets_digest(village.models, specs_dir)


def test_openg2gs_spec_is_the_same_spec() -> None:
    for label in ("Llama-3.1-405B", "Qwen3-30B-A3B"):
        spec = shipped_model(label).spec
        theirs = openg2g_spec(spec)
        assert theirs.cache_hash() == spec.cache_hash()
        for field, value in asdict(spec).items():
            assert getattr(theirs, "model_label" if field == "label" else field) == value


def test_a_missing_cache_is_named(village: Experiment, tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"nowhere: no such directory; --specs-dir expects"):
        load_assets(village, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    for call in (
        lambda: load_assets(village, tmp_path / "empty"),
        lambda: assets_digest(village.models, tmp_path / "empty"),
    ):
        with pytest.raises(MissingDataError, match=r"no data for model Llama-3.1-8B. .*'scenario-lib data fetch'"):
            call()


@pytest.mark.parametrize("name", ["trace.csv", "itl_fit.json", "logistic_fit.json"])
def test_missing_files_are_named(village: Experiment, cache: Path, folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(MissingDataError, match=rf"{folder.name}/{name}: no such file; .* Llama-3.1-8B"):
        load_assets(village, cache)


@pytest.mark.parametrize("name", ["trace.csv", "itl_fit.json", "logistic_fit.json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01" * 50, b"[]", b"<html>"])
def test_files_that_hold_something_else_are_refused(
    village: Experiment, cache: Path, folder: Path, name: str, content: bytes
) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(DataFileError, match=rf"specs/{folder.name}: a file of this spec cache cannot be read"):
        load_assets(village, cache)


@pytest.mark.parametrize("name", ["trace.csv", "itl_fit.json", "logistic_fit.json"])
def test_truncated_files_are_refused(village: Experiment, cache: Path, folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataFileError, match=folder.name):
        load_assets(village, cache)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_powers_that_are_no_numbers_are_refused(village: Experiment, cache: Path, folder: Path, value: str) -> None:
    """Through a template a NaN would reach every result."""
    header, first, *rest = (folder / "trace.csv").read_text(encoding="utf-8").splitlines()
    lines = [header, f"{first.rsplit(',', 1)[0]},{value}", *rest]
    (folder / "trace.csv").write_text("\n".join(lines), encoding="utf-8")
    if value == "-inf":  # openg2g clips negative powers to zero
        assert load_assets(village, cache).inference.power_templates.template("Llama-3.1-8B", 8).min() == 0
        return
    with pytest.raises(DataFileError, match=r"trace\.csv: powers at batch size 8 are not all finite"):
        load_assets(village, cache)


def test_fits_that_are_no_numbers_are_refused(village: Experiment, cache: Path, folder: Path) -> None:
    edit_json(folder / "itl_fit.json", lambda content: content["per_batch"]["32"].update(loc=float("nan")))
    with pytest.raises(DataFileError, match=r"itl_fit\.json: .*nan.* at batch size 32; expected finite"):
        load_assets(village, cache)


@pytest.mark.parametrize("name", ["power", "latency", "throughput"])
def test_logistic_fits_are_all_needed(village: Experiment, cache: Path, folder: Path, name: str) -> None:
    edit_json(folder / "logistic_fit.json", lambda content: content[name].update(k=float("inf")))
    with pytest.raises(DataFileError, match=rf"logistic_fit\.json: {name} is .*inf.*; expected finite"):
        load_assets(village, cache)
    edit_json(folder / "logistic_fit.json", lambda content: content.pop(name))
    with pytest.raises(DataFileError, match=rf"logistic_fit\.json: {name} is None"):
        load_assets(village, cache)


def test_feasible_batch_sizes_are_all_needed(village: Experiment, cache: Path, folder: Path) -> None:
    rows = (folder / "trace.csv").read_text(encoding="utf-8").splitlines()
    kept = [row for row in rows if not row.startswith("32,")]
    (folder / "trace.csv").write_text("\n".join(kept), encoding="utf-8")
    with pytest.raises(DataFileError, match=rf"{folder.name}: no power trace .* of Llama-3.1-8B at batch sizes \[32\]"):
        load_assets(village, cache)


def test_the_digest_covers_what_rollouts_read(village: Experiment, cache: Path, folder: Path, specs_dir: Path) -> None:
    digest = assets_digest(village.models, cache)
    assert assets_digest(village.models, specs_dir) == digest
    edit_json(folder / "_manifest.json", lambda content: content.update(date="today"))
    other = next(path for path in cache.iterdir() if path.name not in {m.cache_hash() for m in village.models})
    (other / "trace.csv").unlink()
    assert assets_digest(village.models, cache) == digest
    assert assets_digest(village.models[::-1], cache) != digest
    for name in ("trace.csv", "itl_fit.json", "logistic_fit.json"):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(before + b"\n")
        assert assets_digest(village.models, cache) != digest
        (folder / name).write_bytes(before)
    assert assets_digest(village.models, cache) == digest


def test_other_template_lengths(village: Experiment, specs_dir: Path) -> None:
    short = replace(village, datacenter=replace(village.datacenter, template_duration_s=60.0))
    template = load_assets(short, specs_dir).inference.power_templates.template("Llama-3.1-8B", 128)
    long = load_assets(village, specs_dir).inference.power_templates.template("Llama-3.1-8B", 128)
    assert len(template) == 61
    assert np.array_equal(template[:60], long[:60])
