"""`scenario-lib data`: synthetic spec caches, and the gated measurements through openg2g's own loader."""

import filecmp
from pathlib import Path

import pytest
from openg2g.controller.ofo import LogisticModelStore
from openg2g.datacenter.workloads.inference import InferenceData

from scenario_lib._parsing import data_dir
from scenario_lib.models.published import known_spec


def test_synthesize_writes_the_shipped_traces(run, tmp_path: Path) -> None:
    out = tmp_path / "specs"
    seen = run("data", "synthesize", "--out", out)
    assert seen.exit_code == 0
    assert seen.output == f"synthetic spec cache in {out}; build with --specs-dir {out}\n"
    shipped = data_dir() / "specs"
    folders = sorted(path.name for path in shipped.iterdir() if path.is_dir())
    assert sorted(path.name for path in out.iterdir()) == folders
    for folder in folders:
        names = ["_manifest.json", "itl_fit.json", "logistic_fit.json", "trace.csv"]
        equal, different, missing = filecmp.cmpfiles(shipped / folder, out / folder, names, shallow=False)
        assert (sorted(equal), different, missing) == (names, [], [])


def test_another_seed_gives_other_traces_and_the_same_fits(run, tmp_path: Path) -> None:
    run("data", "synthesize", "--out", tmp_path / "specs", "--seed", 1)
    for folder in (tmp_path / "specs").iterdir():
        shipped = data_dir() / "specs" / folder.name
        assert (folder / "trace.csv").read_bytes() != (shipped / "trace.csv").read_bytes()
        assert (folder / "itl_fit.json").read_bytes() == (shipped / "itl_fit.json").read_bytes()


def test_an_existing_cache_needs_overwrite(run, tmp_path: Path) -> None:
    run("data", "synthesize", "--out", tmp_path / "specs")
    seen = run("data", "synthesize", "--out", tmp_path / "specs")
    assert seen.exit_code == 1
    assert "exists already" in seen.errors
    assert seen.errors.count("\n") == 1
    assert run("data", "synthesize", "--out", tmp_path / "specs", "--overwrite").exit_code == 0


def test_fetch_without_token_or_network_says_what_to_do(run, tmp_path: Path, monkeypatch) -> None:
    def gated(*_: object, **__: object) -> None:
        raise PermissionError("401 Client Error.\nAccess to dataset is restricted")

    monkeypatch.setattr(InferenceData, "ensure", gated)
    seen = run("data", "fetch", "--out", tmp_path / "specs")
    assert seen.exit_code == 1
    assert seen.output == ""
    assert seen.errors.count("\n") == 1
    for text in (
        "could not be obtained (PermissionError: 401 Client Error. Access to dataset is restricted)",
        "accept the terms of the data set ml-energy/benchmark-v3 on the Hugging Face Hub and set HF_TOKEN",
        "or give a local copy with --mlenergy-data-dir",
        "leave --specs-dir away: the shipped synthetic traces have the same statistics",
    ):
        assert text in seen.errors


def test_fetch_goes_through_openg2gs_loaders(run, tmp_path: Path, monkeypatch) -> None:
    calls = []

    def record(name: str):
        return lambda out, specs, mlenergy_data_dir: calls.append((name, out, len(specs), mlenergy_data_dir))

    monkeypatch.setattr(InferenceData, "ensure", record("inference"))
    monkeypatch.setattr(LogisticModelStore, "ensure", record("logistic"))
    seen = run("data", "fetch", "--out", tmp_path / "specs", "--mlenergy-data-dir", tmp_path)
    assert seen.exit_code == 0
    assert calls == [("inference", tmp_path / "specs", 5, tmp_path), ("logistic", tmp_path / "specs", 5, tmp_path)]
    assert f"build with --specs-dir {tmp_path / 'specs'}" in seen.output


def test_fetch_from_a_local_copy_that_is_not_there_is_a_usage_error(run, tmp_path: Path) -> None:
    seen = run("data", "fetch", "--out", tmp_path / "specs", "--mlenergy-data-dir", tmp_path / "absent")
    assert seen.exit_code == 2
    assert "does not exist" in seen.errors


def test_fetch_from_a_local_copy_without_data_is_one_line(run, tmp_path: Path) -> None:
    pytest.importorskip("mlenergy_data")
    (tmp_path / "copy").mkdir()
    seen = run("data", "fetch", "--out", tmp_path / "specs", "--mlenergy-data-dir", tmp_path / "copy")
    assert seen.exit_code == 1
    assert seen.errors.splitlines()[-1].startswith("Error: ")
    assert "could not be obtained" in seen.errors


def test_one_model_of_the_catalogue_is_synthesized(run, tmp_path: Path) -> None:
    seen = run("data", "synthesize", "--out", tmp_path / "specs", "--model", "gpt-oss-20b-H100x1-gpqa")
    assert seen.exit_code == 0
    (folder,) = (tmp_path / "specs").iterdir()
    assert folder.name == known_spec("gpt-oss-20b-H100x1-gpqa").cache_hash()
    seen = run("data", "synthesize", "--out", tmp_path / "specs", "--model", "gpt-oss")
    assert (seen.exit_code, seen.output) == (1, "")
    assert seen.errors.startswith("Error: no model 'gpt-oss'; like it are gpt-oss-120b-H100x2-gpqa, ")


def test_named_models_are_fetched(run, tmp_path: Path, monkeypatch) -> None:
    asked = []
    for store in (InferenceData, LogisticModelStore):
        monkeypatch.setattr(store, "ensure", lambda out, specs, **_: asked.append([s.model_label for s in specs]))
    labels = ["Llama-3.1-8B", "Qwen3-14B-B200x1-chat"]
    seen = run("data", "fetch", "--out", tmp_path, "--model", labels[0], "--model", labels[1])
    assert (seen.exit_code, asked) == (0, [labels, labels])
    assert seen.output.startswith("measured spec cache of 2 models")
