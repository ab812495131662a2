"""Obtaining measured data: nothing is fetched that is there, and a refusal says what to do."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from openg2g.datacenter.workloads.inference import InferenceData

from scenario_lib.errors import MissingDataError
from scenario_lib.models.specs import shipped_models
from scenario_lib.simulation.assets import fetch_measured_specs

SPECS = tuple(model.spec for model in shipped_models())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_complete_cache_is_kept(specs_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"nothing may be generated: {args} {kwargs}")

    monkeypatch.setattr(InferenceData, "generate", refuse)
    cache = Path(shutil.copytree(specs_dir, tmp_path / "specs"))
    before = contents(cache)
    assert len(before) == 20
    fetch_measured_specs(cache, SPECS)
    assert contents(cache) == before


@pytest.mark.parametrize(
    "error", [PermissionError("gated"), ImportError("no hub"), RuntimeError("401"), ConnectionError("no network")]
)
def test_a_refusal_names_the_remedies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    asked: list[Any] = []

    def refuse(models: object, **kwargs: object) -> None:
        asked.append((models, kwargs))
        raise error

    monkeypatch.setattr(InferenceData, "generate", refuse)
    with pytest.raises(MissingDataError) as caught:
        fetch_measured_specs(tmp_path / "specs", SPECS, tmp_path / "local copy")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'specs'}: the measured data could not be obtained ({type(error).__name__}")
    for remedy in (str(error), "ml-energy/benchmark-v3", "HF_TOKEN", "--mlenergy-data-dir", "leave --specs-dir away"):
        assert remedy in message
    ((models, kwargs),) = asked
    assert len(models) == 5
    assert kwargs["mlenergy_data_dir"] == tmp_path / "local copy"


def test_a_local_copy_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"could not be obtained .*nowhere"):
        fetch_measured_specs(tmp_path / "specs", SPECS, tmp_path / "nowhere")


def test_only_missing_models_are_generated(specs_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Path(shutil.copytree(specs_dir, tmp_path / "specs"))
    shutil.rmtree(cache / "bc0bde304544a603")
    before = contents(cache)
    asked: list[str] = []

    def refuse(models: Any, **_: object) -> None:
        asked.extend(model.model_label for model in models)
        raise PermissionError

    monkeypatch.setattr(InferenceData, "generate", refuse)
    with pytest.raises(MissingDataError):
        fetch_measured_specs(cache, SPECS)
    assert asked == ["Llama-3.1-8B"]
    assert contents(cache) == before
