"""The spec cache: openg2g reads it without complaint, and the same models give the same bytes."""

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import BuildRefusedError, InvalidSettingError
from scenario_lib.models.power_traces import POWER_TRACE_SEED, synthesize_power_w_per_gpu, trace_rng
from scenario_lib.models.spec_cache import write_spec_cache
from scenario_lib.models.specs import ModelSpec, shipped_model, shipped_models

FILES = ["_manifest.json", "itl_fit.json", "logistic_fit.json", "trace.csv"]


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def openg2g_spec(spec: ModelSpec) -> object:
    from openg2g.datacenter.config import InferenceModelSpec

    fields = asdict(spec)
    return InferenceModelSpec(model_label=fields.pop("label"), **fields)


def test_written_again_the_shipped_cache_is_the_same_to_the_byte(tmp_path: Path) -> None:
    written = write_spec_cache(tmp_path / "first", shipped_models())
    assert written == tuple(tmp_path / "first" / model.spec.cache_hash() for model in shipped_models())
    write_spec_cache(tmp_path / "second", shipped_models())
    assert len(contents(tmp_path / "first")) == 20
    assert contents(tmp_path / "first") == contents(tmp_path / "second") == contents(data_dir() / "specs")


def test_shipped_cache_is_small() -> None:
    assert sum(len(content) for content in contents(data_dir() / "specs").values()) < 1_500_000


def test_openg2g_plays_exactly_what_was_made(caplog: pytest.LogCaptureFixture) -> None:
    from openg2g.datacenter.workloads.inference import InferenceData

    specs = tuple(openg2g_spec(model.spec) for model in shipped_models())
    with caplog.at_level(logging.WARNING):
        data = InferenceData.load(data_dir() / "specs", specs, duration_s=600, dt_s=1)
    assert caplog.records == []
    for model in shipped_models():
        label = model.spec.label
        assert data.power_templates.batch_sizes(label) == list(model.spec.batch_sizes)
        for row in model.power_trace:
            played = data.power_templates.template(label, row.batch_size)
            made = synthesize_power_w_per_gpu(row, trace_rng(POWER_TRACE_SEED, label, row.batch_size))
            assert np.allclose(played, made, rtol=0, atol=1e-9)
        assert data.itl_fits is not None
        for mixture in model.itl_mixture:
            read = data.itl_fits.distributions[label][mixture.batch_size].to_dict()
            assert {"batch_size": mixture.batch_size, **read} == asdict(mixture)


def test_openg2g_reads_the_logistic_fits() -> None:
    from openg2g.controller.ofo import LogisticModelStore

    store = LogisticModelStore.load(data_dir() / "specs", tuple(openg2g_spec(model.spec) for model in shipped_models()))
    for model in shipped_models():
        label = model.spec.label
        read = {
            name: asdict(fit)
            for name, fit in (
                ("power", store.power(label)),
                ("latency", store.latency(label)),
                ("throughput", store.throughput(label)),
            )
        }
        assert read == asdict(model.logistic)


def test_manifest_says_what_the_traces_are() -> None:
    for model in shipped_models():
        path = data_dir() / "specs" / model.spec.cache_hash() / "_manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        assert manifest["synthetic"] is True
        assert (manifest["source"], manifest["licence"]) == (
            "ML.ENERGY Benchmark v3, as compiled by openg2g 0.1",
            "Apache-2.0",
        )
        assert (manifest["generator_version"], manifest["generator_seed"]) == (1, POWER_TRACE_SEED)
        assert (manifest["schema_version"], manifest["spec_hash"]) == (3, model.spec.cache_hash())
        assert manifest["spec"]["model_label"] == model.spec.label
        assert "written_utc" not in manifest


def test_existing_folders_are_replaced_only_when_asked(tmp_path: Path) -> None:
    model = shipped_model("Qwen3-235B-A22B")
    (folder,) = write_spec_cache(tmp_path, [model])
    before = contents(tmp_path)
    with pytest.raises(BuildRefusedError, match=f"{folder.name}: exists already"):
        write_spec_cache(tmp_path, [shipped_model("Llama-3.1-8B"), model])
    assert contents(tmp_path) == before
    (tmp_path / "other").mkdir()
    write_spec_cache(tmp_path, [model], seed=1, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.name, "other"])
    assert sorted(path.name for path in folder.iterdir()) == FILES
    changed = {name for name, content in contents(tmp_path).items() if content != before[name]}
    assert changed == {f"{folder.name}/trace.csv", f"{folder.name}/_manifest.json"}


def test_a_failed_write_leaves_nothing_and_keeps_what_was(tmp_path: Path) -> None:
    good = shipped_model("Qwen3-235B-A22B")
    write_spec_cache(tmp_path, [good])
    before = contents(tmp_path)
    model = shipped_model("Llama-3.1-8B")
    impossible = replace(model, power_trace=tuple(replace(row, std_w_per_gpu=1.0) for row in model.power_trace))
    with pytest.raises(InvalidSettingError, match="std_w_per_gpu 1 "):
        write_spec_cache(tmp_path, [good, impossible], overwrite=True)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == [good.spec.cache_hash()]


def test_models_that_share_a_hash_are_refused(tmp_path: Path) -> None:
    model = shipped_model("Llama-3.1-8B")
    twin = replace(model, spec=replace(model.spec, label="twin"))
    with pytest.raises(InvalidSettingError, match=r"share a cache hash: Llama-3\.1-8B .*twin"):
        write_spec_cache(tmp_path, [model, twin])
    assert list(tmp_path.iterdir()) == []
