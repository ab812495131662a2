"""Models: the shipped facts, and what a model file or a spec may not be."""

import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError, InvalidSettingError, MissingDataError, UnknownNameError
from scenario_lib.models.specs import (
    ITLMixture,
    LogisticFit,
    ModelData,
    ModelSpec,
    load_model,
    shipped_model,
    shipped_models,
)

LABELS = ("Llama-3.1-405B", "Llama-3.1-70B", "Llama-3.1-8B", "Qwen3-235B-A22B", "Qwen3-30B-A3B")
MODEL_FILE = data_dir() / "models" / "Llama-3.1-8B.toml"


def test_five_models_ship_each_in_the_file_of_its_label() -> None:
    assert tuple(model.spec.label for model in shipped_models()) == LABELS
    for label in LABELS:
        assert load_model(data_dir() / "models" / f"{label}.toml") == shipped_model(label)


def test_every_measured_batch_size_has_a_mixture_and_statistics() -> None:
    for model in shipped_models():
        assert tuple(row.batch_size for row in model.itl_mixture) == model.spec.batch_sizes
        assert tuple(row.batch_size for row in model.power_trace) == model.spec.batch_sizes
    assert sum(len(model.power_trace) for model in shipped_models()) == 56


def test_figures_are_carried_over_with_all_their_digits() -> None:
    model = shipped_model("Llama-3.1-405B")
    assert model.logistic.power == LogisticFit(L=1824.24316343, x0=5.69230769231, k=1.08118075108, b0=3147.21075482)
    assert model.itl_mixture[0] == ITLMixture(
        batch_size=8,
        loc=0.0298147632,
        pi_steady=0.957200571,
        sigma_steady=0.0540989458,
        scale_steady=0.00338711745,
        pi_stall=0.042799429,
        sigma_stall=1.7354346,
        scale_stall=0.00719577379,
    )
    row = model.power_trace[2]
    assert (row.batch_size, row.duration_s, row.mean_w_per_gpu, row.std_w_per_gpu) == (32, 473.3, 470.41, 62.6821)
    assert row.quantiles_w_per_gpu == (231.59, 446.393, 457.392, 525.521, 680.958)
    assert row.autocorrelations == (0.177112, -0.0308094, 0.00860161)


@pytest.mark.parametrize("model", shipped_models(), ids=LABELS)
def test_power_fit_is_in_watts_per_replica(model: ModelData) -> None:
    for row in model.power_trace:
        measured_w_per_replica = row.mean_w_per_gpu * model.spec.gpus_per_replica
        assert model.logistic.power.at(row.batch_size) == pytest.approx(measured_w_per_replica, rel=0.04)


def test_logistic_fit_at_its_midpoint_and_far_away() -> None:
    fit = LogisticFit(L=10.0, x0=5.0, k=2.0, b0=3.0)
    assert fit.at(32) == 8.0
    assert fit.at(64) == pytest.approx(3 + 10 / (1 + 2.718281828459045**-2))
    assert replace(fit, k=1e6).at(1) == 3.0


def test_logistic_fit_agrees_with_openg2g() -> None:
    openg2g_fit = pytest.importorskip("mlenergy.data.modeling").LogisticModel
    for model in shipped_models():
        for fit in (model.logistic.power, model.logistic.latency, model.logistic.throughput):
            for batch_size in model.spec.batch_sizes:
                assert fit.at(batch_size) == pytest.approx(openg2g_fit(**asdict(fit)).eval(batch_size), rel=1e-12)


def _openg2g_spec(spec: ModelSpec) -> Any:
    from openg2g.datacenter.config import InferenceModelSpec

    fields = asdict(spec)
    return InferenceModelSpec(model_label=fields.pop("label"), **fields)


@pytest.mark.parametrize("model", shipped_models(), ids=LABELS)
def test_cache_hash_equals_that_of_openg2g(model: ModelData) -> None:
    for spec in (
        model.spec,
        replace(model.spec, precision="fp8", fit_exclude_batch_sizes=(16, 32)),
        replace(model.spec, batch_sizes=(8, 16), feasible_batch_sizes=(8,)),
    ):
        assert spec.cache_hash() == _openg2g_spec(spec).cache_hash()


def test_cache_hash_covers_the_measurement_only() -> None:
    spec = shipped_model("Llama-3.1-8B").spec
    assert spec.cache_hash() == "bc0bde304544a603"
    assert replace(spec, label="other", itl_deadline_s=0.2, feasible_batch_sizes=(8,)).cache_hash() == spec.cache_hash()
    assert replace(spec, task="gpqa").cache_hash() != spec.cache_hash()


def test_unknown_label_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'Llama-9B'.*Llama-3\.1-405B, .*Qwen3-30B-A3B"):
        shipped_model("Llama-9B")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpus_per_replica": 0}, "gpus_per_replica of model Llama-3.1-8B is 0; expected at least 1"),
        ({"tensor_parallel": 1.5}, "tensor_parallel .* is 1.5; expected a whole number"),
        ({"expert_parallel": -1}, "expert_parallel .* at least 1"),
        ({"itl_deadline_s": 0.0}, "itl_deadline_s .* more than 0"),
        ({"itl_deadline_s": float("nan")}, "itl_deadline_s .* a finite number"),
        ({"label": " "}, "label of model ' '"),
        ({"batch_sizes": ()}, "batch_sizes .* at least one"),
        ({"feasible_batch_sizes": ()}, "feasible_batch_sizes .* at least one"),
        ({"feasible_batch_sizes": (8, 9)}, "feasible_batch_sizes .* only measured batch sizes"),
        ({"feasible_batch_sizes": (16, 8)}, "feasible_batch_sizes .* that increase"),
        ({"fit_exclude_batch_sizes": (7,)}, "fit_exclude_batch_sizes .* only measured batch sizes"),
        ({"batch_sizes": (0, 8)}, "batch_sizes .* at least 1"),
    ],
)
def test_spec_refuses_what_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        replace(shipped_model("Llama-3.1-8B").spec, **change)


@pytest.mark.parametrize(
    ("old", "new", "field", "said"),
    [
        ("task = ", "tusk = ", "spec.tusk", "is not known"),
        ("task = ", "tusk = ", "spec.task", "required|missing"),
        ("[logistic.latency]", "[logistic.delay]", "logistic.latency", "required|missing"),
        ("k = 1.26384820293", 'k = "1.26384820293"', "logistic.power.k", "expected a number"),
        ("gpus_per_replica = 1", "gpus_per_replica = 1.0", "spec.gpus_per_replica", "expected a whole number"),
        ("gpus_per_replica = 1", "gpus_per_replica = true", "spec.gpus_per_replica", "expected a whole number"),
        ("itl_deadline_s = 0.08", "itl_deadline_s = true", "spec.itl_deadline_s", "expected a number"),
        ("[8, 16, 32, 64, 96", '["8", 16, 32, 64, 96', "spec.batch_sizes.0", "expected a whole number"),
        ("loc = 0.00177325519", "loc = nan", "itl_mixture.0.loc", "finite"),
        ("pi_steady = 0.957853386", "pi_steady = 0.9578", "itl_mixture.0", "pi_steady . pi_stall at batch size 8"),
        ("sigma_steady = 0.05", "sigma_steady = 0.0", "itl_mixture.0", "sigma_steady at batch size 8"),
        ("p10_w_per_gpu = 467.592", "p10_w_per_gpu = 400.0", "power_trace.0", "quantiles that do not decrease"),
        ("std_w_per_gpu = 30.8179", "std_w_per_gpu = -1.0", "power_trace.0", "std_w_per_gpu at batch size 8"),
        ("autocorr_1s = -0.0256168", "autocorr_1s = -1.2", "power_trace.0", "autocorr_1s at batch size 8"),
        ("[[power_trace]]\nbatch_size = 8\n", "[[power_trace]]\nbatch_size = 9\n", "", "only measured batch sizes"),
        ("[[power_trace]]\nbatch_size = 8\n", "[[power_trace]]\nbatch_size = 24\n", "", "batch sizes that increase"),
    ],
)
def test_model_file_refuses_what_cannot_be(tmp_path: Path, old: str, new: str, field: str, said: str) -> None:
    text = MODEL_FILE.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataFileError, match=rf"(?s)mine\.toml.*{field}.*(?i:{said})"):
        load_model(path)


def test_feasible_batch_sizes_need_their_rows() -> None:
    model = shipped_model("Llama-3.1-8B")
    with pytest.raises(InvalidSettingError, match=r"power_trace of model .* a row also for batch sizes \[8\]"):
        replace(model, power_trace=model.power_trace[1:])
    # 1024 was measured, but no controller may set it.
    assert replace(model, power_trace=model.power_trace[:-1]).power_trace[-1].batch_size == 768


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"nowhere\.toml"):
        load_model(tmp_path / "nowhere.toml")
    (tmp_path / "broken.toml").write_text("[spec", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"broken\.toml"):
        load_model(tmp_path / "broken.toml")


def test_reading_models_loads_no_heavy_package() -> None:
    code = (
        "import sys; from scenario_lib.models.specs import shipped_models; shipped_models(); "
        "print([name for name in ('pandas', 'openg2g', 'opendssdirect', 'pyarrow', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
