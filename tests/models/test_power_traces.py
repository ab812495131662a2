"""Synthetic power traces: the shipped ones meet the measured statistics, and can be made again."""

import csv
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from scenario_lib._parsing import data_dir
from scenario_lib.errors import InvalidSettingError
from scenario_lib.models.power_traces import POWER_TRACE_SEED, synthesize_power_w_per_gpu, trace_rng
from scenario_lib.models.specs import ModelData, PowerTraceStatistics, shipped_model, shipped_models

CASES = [
    pytest.param(model, row, id=f"{model.spec.label}-{row.batch_size}")
    for model in shipped_models()
    for row in model.power_trace
]
Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def shipped() -> Callable[[ModelData, int], Floats]:
    """The shipped trace of a model at a batch size, power of one GPU (W)."""
    power_w: dict[tuple[str, int], list[float]] = {}
    for model in shipped_models():
        path = data_dir() / "specs" / model.spec.cache_hash() / "trace.csv"
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                of_trace = power_w.setdefault((model.spec.label, int(row["batch_size"])), [])
                assert float(row["relative_time_s"]) == len(of_trace)
                of_trace.append(float(row["power_total_W"]))
    return lambda model, batch: np.array(power_w[model.spec.label, batch]) / model.spec.gpus_per_replica


def require_calibrated(trace: Floats, statistics: PowerTraceStatistics) -> None:
    assert np.mean(trace) == pytest.approx(statistics.mean_w_per_gpu, rel=0.001)
    assert np.std(trace) == pytest.approx(statistics.std_w_per_gpu, rel=0.02)
    quantiles = np.quantile(trace, [0.01, 0.1, 0.5, 0.9, 0.99])
    assert quantiles == pytest.approx(np.array(statistics.quantiles_w_per_gpu), rel=0.005)
    deviations = trace - np.mean(trace)
    for lag, wanted in zip((1, 5, 30), statistics.autocorrelations, strict=True):
        found = np.sum(deviations[:-lag] * deviations[lag:]) / np.sum(deviations**2)
        assert found == pytest.approx(wanted, abs=0.03)
        assert np.corrcoef(trace[:-lag], trace[lag:])[0, 1] == pytest.approx(wanted, abs=0.1)


@pytest.mark.parametrize(("model", "statistics"), CASES)
def test_shipped_trace_has_the_measured_statistics(
    shipped: Callable[[ModelData, int], Floats], model: ModelData, statistics: PowerTraceStatistics
) -> None:
    trace = shipped(model, statistics.batch_size)
    assert trace.shape == (601,)
    assert trace[0] == trace[-1]
    assert trace.min() > 0
    assert trace.max() < 1000  # a GPU of 700 W, with the short peaks that were measured (p99 up to 836 W)
    require_calibrated(trace, statistics)


@pytest.mark.parametrize(("model", "statistics"), CASES)
def test_made_again_the_shipped_trace_is_the_same(
    shipped: Callable[[ModelData, int], Floats], model: ModelData, statistics: PowerTraceStatistics
) -> None:
    rng = trace_rng(POWER_TRACE_SEED, model.spec.label, statistics.batch_size)
    made = synthesize_power_w_per_gpu(statistics, rng)
    assert np.array_equal(made.round(3), shipped(model, statistics.batch_size).round(3))


@pytest.mark.parametrize(("model", "statistics"), CASES)
def test_another_seed_gives_another_trace_of_the_same_statistics(
    shipped: Callable[[ModelData, int], Floats], model: ModelData, statistics: PowerTraceStatistics
) -> None:
    trace = synthesize_power_w_per_gpu(statistics, trace_rng(7, model.spec.label, statistics.batch_size))
    assert np.mean(trace == shipped(model, statistics.batch_size)) < 0.2
    require_calibrated(trace, statistics)


@pytest.mark.parametrize("n_samples", [201, 1201])
def test_other_lengths(n_samples: int) -> None:
    statistics = shipped_model("Qwen3-30B-A3B").power_trace[0]
    trace = synthesize_power_w_per_gpu(statistics, np.random.default_rng(1), n_samples)
    assert trace.shape == (n_samples,)
    require_calibrated(trace, statistics)


def test_skew_and_spikes_follow_the_statistics() -> None:
    spiky = synthesize_power_w_per_gpu(shipped_model("Llama-3.1-405B").power_trace[0], np.random.default_rng(1))
    even = synthesize_power_w_per_gpu(shipped_model("Qwen3-235B-A22B").power_trace[0], np.random.default_rng(1))
    skews = [float(np.mean(((trace - trace.mean()) / trace.std()) ** 3)) for trace in (spiky, even)]
    assert skews[0] > 4
    assert abs(skews[1]) < 0.5


def test_each_trace_has_a_stream_of_its_own() -> None:
    keys = [(seed, label, batch) for seed in (0, 1) for label in ("a", "b") for batch in (8, 16)]
    assert len({int(trace_rng(*key).integers(2**62)) for key in keys}) == len(keys)
    assert trace_rng(0, "a", 8).random() == trace_rng(0, "a", 8).random()


@pytest.mark.parametrize("n_samples", [0, 101, 600])
def test_length_must_put_the_quantiles_on_samples(n_samples: int) -> None:
    statistics = shipped_model("Llama-3.1-8B").power_trace[0]
    with pytest.raises(InvalidSettingError, match=f"n_samples is {n_samples}; expected a multiple of 100 plus 1"):
        synthesize_power_w_per_gpu(statistics, np.random.default_rng(1), n_samples)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"mean_w_per_gpu": 700.0}, "mean_w_per_gpu 700"),
        ({"std_w_per_gpu": 3.0}, "std_w_per_gpu 3"),
        ({"autocorr_1s": 0.99, "autocorr_5s": -0.9}, "autocorr_5s -0.9"),
    ],
)
def test_contradictory_statistics_are_refused(change: dict[str, Any], named: str) -> None:
    statistics = replace(shipped_model("Llama-3.1-8B").power_trace[0], **change)
    with pytest.raises(InvalidSettingError, match=f"batch size 8 contradict each other.*{named} \\(nearest"):
        synthesize_power_w_per_gpu(statistics, np.random.default_rng(1))
