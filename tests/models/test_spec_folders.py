"""Which spec cache is read: shipped, made for the catalogue, or a user's own; and that a rollout comes of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import MissingDataError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.models.power_traces import POWER_TRACE_SEED, synthesize_power_w_per_gpu, trace_rng
from scenario_lib.models.published import known_spec, model_data, published_model, published_models
from scenario_lib.models.spec_cache import opened_specs, write_spec_cache
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.assets import assets_digest, load_assets
from scenario_lib.validation.validate import ReplayOptions, validate_library

CATALOGUE_LABEL = "Qwen3-8B-H100x1-chat"


@pytest.fixture
def mixed(edited_village: Callable[[str, str], Path]) -> Experiment:
    """The village with a model of the catalogue beside one with a measured trace."""
    return load_experiment(edited_village('"Llama-3.1-8B"', f'"{CATALOGUE_LABEL}"'))


def test_shipped_models_are_read_where_they_lie(village: Experiment) -> None:
    with opened_specs(village.models, None) as folder:
        assert folder == data_dir() / "specs"


def test_a_folder_is_made_for_the_catalogue_and_goes_again(mixed: Experiment) -> None:
    with opened_specs(mixed.models, None) as folder:
        assert {path.name for path in folder.iterdir()} == {spec.cache_hash() for spec in mixed.models}
        manifest = (folder / mixed.models[0].cache_hash() / "_manifest.json").read_text(encoding="utf-8")
    assert "their course in time is assumed to be that of Llama-3.1-8B" in manifest
    assert not folder.exists()


def test_what_is_played_has_the_published_means(mixed: Experiment) -> None:
    assets = load_assets(mixed)
    for row in published_model(CATALOGUE_LABEL).figures:
        played = assets.inference.power_templates.template(CATALOGUE_LABEL, row.batch_size)
        assert played.mean() == pytest.approx(row.power_w, rel=1e-3)


def test_the_same_models_have_the_same_digest_and_another_has_another(mixed: Experiment, village: Experiment) -> None:
    assert assets_digest(mixed.models) == assets_digest(mixed.models)
    assert assets_digest(mixed.models) != assets_digest(village.models)


@pytest.mark.parametrize(
    ("label", "digest"),
    [
        (CATALOGUE_LABEL, "07d9d52069490f951f71b8bffb341fabb44377a6ae75c4e0c3b3470250e1d492"),
        ("DeepSeek-V3.1-B200x8-chat", "68025c4eee2c628c8570a69c010344548303aa3d9c99eae669f461d7f6f47d83"),
    ],
)
def test_the_data_of_a_model_are_these_bytes(label: str, digest: str) -> None:
    """Libraries keep this digest; other bytes would make every one of them on this model refuse to replay."""
    assert assets_digest((known_spec(label),)) == digest


def test_a_model_keeps_its_data_under_another_label_or_deadline(mixed: Experiment) -> None:
    first, *others = mixed.models
    renamed = replace(first, label="ours", itl_deadline_s=0.5, feasible_batch_sizes=(32, 64, 128))
    assert assets_digest((renamed, *others)) == assets_digest(mixed.models)


def test_a_users_folder_wins_and_must_have_the_model(mixed: Experiment, tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    with pytest.raises(MissingDataError, match=rf"no data for model {CATALOGUE_LABEL}"):
        load_assets(mixed, tmp_path / "specs")
    with pytest.raises(MissingDataError, match="no such directory; --specs-dir expects"):
        load_assets(mixed, tmp_path / "absent")


@pytest.mark.parametrize("number", range(4))
def test_the_statistics_of_every_model_contradict_nothing(number: int) -> None:
    """A quarter of the catalogue each: a trace is found for every batch size, or the generator says so."""
    for model in published_models()[number::4]:
        for row in model_data(model).power_trace[:: 3 if number else 1]:
            trace = synthesize_power_w_per_gpu(row, trace_rng(POWER_TRACE_SEED, model.label, row.batch_size))
            assert trace.mean() == pytest.approx(row.mean_w_per_gpu, rel=1e-3)
            assert trace.min() > 0


def test_a_library_on_the_catalogue_is_built_and_replays(mixed: Experiment, tmp_path: Path) -> None:
    """End to end on the compiled engine: build, validate with replays, and the same bytes with two workers."""
    plan = MeasurePlan(mixed, RandomizationSettings(), ScreeningCriteria())
    request = CandidateRequest(seeds=(7, 1007, 2007))
    one = build_library(plan, request, BuildOptions(tmp_path / "one"))
    two = build_library(plan, request, BuildOptions(tmp_path / "two", jobs=2))
    assert [candidate.failure for candidate in one.candidates] == [None] * 3
    assert len(one.accepted) >= 1
    names = sorted(path.name for path in one.path.iterdir() if path.name != "build-log.json")
    assert names == sorted(path.name for path in two.path.iterdir() if path.name != "build-log.json")
    for name in names:
        assert (one.path / name).read_bytes() == (two.path / name).read_bytes(), name
    experiment_file = Path(mixed.feeder.circuit).with_name("experiment.toml")
    report = validate_library(one.path, ReplayOptions(1, system=str(experiment_file)))
    assert (report.grade.name, report.replayed) == ("HELD", 1)


def test_a_written_cache_of_the_catalogue_is_the_made_one(mixed: Experiment, tmp_path: Path) -> None:
    (written,) = write_spec_cache(tmp_path / "specs", [model_data(published_model(CATALOGUE_LABEL))])
    with opened_specs(mixed.models, None) as folder:
        for name in ("trace.csv", "itl_fit.json", "logistic_fit.json"):
            assert (folder / written.name / name).read_bytes() == (written / name).read_bytes()
    assert np.isfinite(load_assets(mixed).inference.power_templates.template(CATALOGUE_LABEL, 8)).all()
