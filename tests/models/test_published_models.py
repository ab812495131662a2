"""The catalogue: what is published is carried over, what is assumed is what the docstrings say."""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from scenario_lib._parsing import data_dir, read_rows
from scenario_lib.errors import DataFileError, UnknownNameError
from scenario_lib.feeders.experiment import INITIAL_BATCH_CHOICES
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.models.published import (
    PublishedModel,
    assumed_power_statistics,
    itl_rows,
    known_spec,
    logistic_rows,
    model_data,
    published_model,
    published_models,
)
from scenario_lib.models.specs import shipped_model, shipped_models

Edit = Callable[[str, str], Path]
MODELS = published_models()


def test_the_catalogue_holds_both_gpus_and_three_tasks() -> None:
    assert len(MODELS) == 59
    assert {model.deployment.gpu_model for model in MODELS} == {"H100", "B200"}
    assert {model.deployment.task for model in MODELS} == {"lm-arena-chat", "gpqa", "sourcegraph-fim"}
    assert sum(len(model.figures) for model in MODELS) == 502


def test_labels_and_measurements_are_distinct_and_no_shipped_model_is_meant() -> None:
    labels = [*(model.label for model in MODELS), *(model.spec.label for model in shipped_models())]
    hashes = [*(model.spec().cache_hash() for model in MODELS), *(m.spec.cache_hash() for m in shipped_models())]
    assert len(set(labels)) == len(set(hashes)) == 64


def test_a_figure_is_carried_over_with_all_its_digits() -> None:
    model = published_model("Qwen3-235B-A22B-Instruct-2507-B200x4-chat")
    (row,) = (row for row in model.figures if row.batch_size == 64)
    assert (row.mean_batch_size, row.power_w, row.output_tokens_per_s) == (63.9126, 3122.56, 1528.4)
    assert row.itl_quantiles_s == (0.0408215, 0.0420952, 0.0435933, 0.0672283)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.label)
def test_every_model_can_be_deployed(model: PublishedModel) -> None:
    data = model_data(model)
    assert data.spec == known_spec(model.label)
    assert set(INITIAL_BATCH_CHOICES) <= set(data.spec.feasible_batch_sizes) <= set(data.spec.batch_sizes)
    assert all(size & (size - 1) == 0 and 8 <= size <= 512 for size in data.spec.feasible_batch_sizes)
    assert [row.batch_size for row in data.itl_mixture] == list(model.batch_sizes)
    for row, figures in zip(data.power_trace, model.figures, strict=True):
        assert row.mean_w_per_gpu * data.spec.gpus_per_replica == pytest.approx(figures.power_w, rel=1e-12)
        assert figures.mean_batch_size >= 0.9 * figures.batch_size


def test_the_course_of_power_is_that_of_the_named_model_scaled() -> None:
    model = published_model("DeepSeek-V3.1-B200x8-chat")
    (figures,) = (row for row in model.figures if row.batch_size == 64)
    (like,) = (row for row in shipped_model("Llama-3.1-405B").power_trace if row.batch_size == 64)
    assumed = assumed_power_statistics(model, figures)
    assert model.deployment.power_shape_of == "Llama-3.1-405B"
    assert assumed.mean_w_per_gpu == pytest.approx(figures.power_w / 8, rel=1e-12)
    assert assumed.std_w_per_gpu / assumed.mean_w_per_gpu == pytest.approx(like.std_w_per_gpu / like.mean_w_per_gpu)
    assert assumed.p99_w_per_gpu / assumed.p01_w_per_gpu == pytest.approx(like.p99_w_per_gpu / like.p01_w_per_gpu)
    assert assumed.autocorrelations == like.autocorrelations


def test_beyond_the_batch_sizes_of_the_named_model_its_nearest_stands_in() -> None:
    model = published_model("Llama-3.1-405B-Instruct-B200x8-chat")
    last = assumed_power_statistics(model, model.figures[-1])
    assert last.batch_size == model.figures[-1].batch_size == 3072
    assert last.autocorrelations == shipped_model("Llama-3.1-405B").power_trace[-1].autocorrelations


def test_the_deadline_is_twice_the_mean_latency_rounded_up() -> None:
    model = published_model("Qwen3-8B-H100x1-chat")
    (row,) = (row for row in model.figures if row.batch_size == 128)
    twice = 2 * row.mean_batch_size / row.output_tokens_per_s
    assert twice <= model.spec().itl_deadline_s < twice + 0.01
    assert round(model.spec().itl_deadline_s * 100) == math.ceil(twice * 100)


def test_fits_are_as_good_as_data_readme_says() -> None:
    """Bounds over the whole catalogue; `models show` names each model's own."""
    errors = sorted(row.quantile_error for rows in itl_rows().values() for row in rows)
    assert errors[len(errors) // 2] < 0.002
    assert errors[int(0.95 * len(errors))] < 0.02
    assert errors[-1] < 0.13
    r_squared = {metric: sorted(rows[metric].r_squared for rows in logistic_rows().values()) for metric in ("power",)}
    assert r_squared["power"][len(MODELS) // 4] > 0.9


def test_the_mean_that_the_latency_fit_does_not_know_agrees_with_littles_law() -> None:
    ratios = sorted(row.mean_ratio for rows in itl_rows().values() for row in rows)
    assert ratios[len(ratios) // 4] > 0.95
    assert ratios[3 * len(ratios) // 4] < 1.01


def test_what_no_model_is_called_is_said_with_those_that_are_there() -> None:
    with pytest.raises(UnknownNameError, match="no model 'GPT-5'; 'scenario-lib models list' names those"):
        known_spec("GPT-5")
    with pytest.raises(UnknownNameError, match="like it are Qwen3-14B-H100x1-chat, "):
        known_spec("Qwen3-14B-H100-chat")
    with pytest.raises(
        UnknownNameError, match="'Llama-3.1-8b'; like it are Llama-3.1-8B, Llama-3.1-8B-Instruct-H100x1"
    ):
        known_spec("Llama-3.1-8b")
    with pytest.raises(
        UnknownNameError, match="no model 'Llama-3.1-8B'; like it are Llama-3.1-8B-Instruct-H100x1-chat"
    ):
        published_model("Llama-3.1-8B")


def test_an_experiment_names_one(edited_village: Edit) -> None:
    edited_village('"Llama-3.1-8B"', '"Qwen3-8B-H100x1-chat"')
    experiment = load_experiment(edited_village('"Qwen3-30B-A3B"', '"gpt-oss-20b-H100x1-gpqa"'))
    assert [spec.label for spec in experiment.models] == ["Qwen3-8B-H100x1-chat", "gpt-oss-20b-H100x1-gpqa"]
    assert experiment.models[0] == published_model("Qwen3-8B-H100x1-chat").spec()


def test_models_that_share_no_batch_sizes_share_no_site(edited_village: Edit) -> None:
    """openg2g steers a site over the batch sizes of all its models; half an hour into a rollout is too late."""
    path = edited_village('"Llama-3.1-8B"', '"gemma-3-12b-it-H100x1-chat"')
    with pytest.raises(DataFileError, match=r"gemma.* was not measured at batch sizes \[256, 512\].*--toml"):
        load_experiment(path)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("batch_size", "batchsize", "batch_size"),
        (",8,", ",eight,", "eight"),
        (",443.", ",nan", "power_w"),
        (",443.", ",-443.", "power_w"),
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    from scenario_lib.models.published import PublishedFigures

    with (data_dir() / "catalogue" / "figures.csv").open(encoding="utf-8", newline="") as stream:
        lines = [",".join(row) for row in csv.reader(stream) if row[0] in ("label", "Qwen3-14B-H100x1-chat")]
    path = tmp_path / "figures.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert len(read_rows(path, PublishedFigures)) == 8
    path.write_text("\n".join(lines).replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataFileError, match=rf"figures\.csv: .*{fault}"):
        read_rows(path, PublishedFigures)
