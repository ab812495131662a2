"""`scenario-lib models` and `scenario-lib feeder check`: what they print, and how they exit."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scenario_lib._parsing import parse_as
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.models.published import known_spec, published_models
from scenario_lib.models.specs import ModelSpec, shipped_models


def test_list_has_every_model_on_a_line(run) -> None:
    seen = run("models", "list")
    assert (seen.exit_code, seen.errors) == (0, "")
    head, *lines, end = seen.output.splitlines()
    assert head.split()[0] == "model"
    labels = [*(model.spec.label for model in shipped_models()), *(model.label for model in published_models())]
    assert [line.split()[0] for line in lines] == labels
    assert end.startswith("64 models; name one as a site's model")


@pytest.mark.parametrize(("options", "count"), [(["--gpu", "b200"], 34), (["--gpu", "H100", "--task", "gpqa"], 8)])
def test_list_can_be_narrowed(run, options: list[str], count: int) -> None:
    facts = json.loads(run("models", "list", "--json", *options).output)
    assert len(facts) == count
    assert {card["spec"]["gpu_model"].lower() for card in facts} == {options[1].lower()}


def test_show_has_figures_and_what_they_rest_on(run) -> None:
    seen = run("models", "show", "qwen3-8b-h100x1-CHAT")
    assert seen.output.startswith("Qwen3-8B-H100x1-chat\n")
    for text in ("published: mean power", "fitted: curves", "that of Llama-3.1-8B; the deadline", "R^2 power 0.983"):
        assert text in seen.output
    (row,) = (line.split() for line in seen.output.splitlines() if line.startswith("128 "))
    assert row == ["128", "573", "5930", "0.097", "20.7", "23.5", "26.7", "40.7"]


def test_show_of_a_model_with_a_measured_trace(run) -> None:
    facts = json.loads(run("models", "show", "Llama-3.1-8B", "--json").output)
    assert facts["quality"] is None
    (row,) = (row for row in facts["figures"] if row["batch_size"] == 128)
    assert row["power_w"] == 664.267
    assert 0.015 < row["itl_p50_s"] < 0.018


@pytest.mark.parametrize("label", ["gpt-oss-120b-B200x2-gpqa", "Llama-3.1-70B"])
def test_the_toml_of_a_model_means_the_model(run, label: str) -> None:
    (table,) = tomllib.loads(run("models", "show", label, "--toml").output)["models"]
    assert parse_as(ModelSpec, table, "printed") == known_spec(label)


def test_an_unknown_model_is_one_line_with_those_like_it(run) -> None:
    seen = run("models", "show", "Qwen3-8B")
    assert (seen.exit_code, seen.output) == (1, "")
    assert seen.errors == (
        "Error: no model 'Qwen3-8B'; like it are Qwen3-8B-H100x1-chat, Qwen3-8B-B200x1-gpqa, Qwen3-8B-B200x1-chat\n"
    )


def test_feeder_check_as_text_and_as_json(run, village_file: Path) -> None:
    seen = run("feeder", "check", village_file)
    assert (seen.exit_code, seen.errors) == (0, "")
    for text in (
        "buses               8: 6 of 3 phases, 1 of 2 phases, 1 of 1 phases; 1 at 12.47 kV, 7 at 4.16 kV",
        "engine              compiled: everything in the circuit is modelled",
        "bus harbour hosts 149 kW",
        "without datacenter  1.0007 pu at farm.1 to 1.0214 pu at mill.3; inside the limits 0.95 to 1.05",
        "5 three-phase buses examined as hosts",
    ):
        assert text in seen.output
    facts = json.loads(run("feeder", "check", village_file, "--json").output)
    assert facts["found"]["load_kw"] == 275.0


def test_feeder_check_of_one_bus(run, village_file: Path) -> None:
    facts = json.loads(run("feeder", "check", village_file, "--json", "--bus", "Quay", "--gpu-watts", "1000").output)
    assert [(host["bus"], host["kw_per_phase"], host["gpus"]) for host in facts["hosting"]] == [("quay", 129, 387)]
    assert facts["sites"][0]["hosting_kw_per_phase"] is None
    hosts = "expected one of square, mill, harbour, quay, school"
    for bus, hint in (("lane", hosts), ("source", "did you mean 'square'?"), ("nowhere", hosts)):
        seen = run("feeder", "check", village_file, "--bus", bus)
        assert (seen.exit_code, seen.output) == (1, "")
        assert f"{bus} cannot host a datacenter; {hint}" in seen.errors


def test_feeder_check_with_faults_prints_them_and_exits_1(run, edited_village: Callable[[str, str], Path]) -> None:
    seen = run("feeder", "check", edited_village('bus = "harbour"', 'bus = "harbor"'))
    assert seen.exit_code == 1
    assert seen.output.splitlines()[-1] == "does not fit        site hall: no bus 'harbor' (did you mean 'harbour'?)"
    assert seen.errors == ""


def test_feeder_check_of_what_is_not_there_is_one_line(run, tmp_path: Path) -> None:
    for name in ("x.dss", "x.toml"):
        seen = run("feeder", "check", tmp_path / name)
        assert (seen.exit_code, seen.output) == (1, "")
        assert seen.errors.startswith(f"Error: {tmp_path / name}: no such file")
        assert seen.errors.count("\n") == 1


def test_a_first_experiment_is_written_sized_and_builds(run, village_file: Path, tmp_path: Path) -> None:
    circuit, out = village_file.parent / "village.dss", tmp_path / "my" / "experiment.toml"
    seen = run("feeder", "init", circuit, "--out", out, "--candidates", 8, "--json")
    assert seen.exit_code == 0, seen.errors
    told = json.loads(seen.output)
    assert told["trials"][-1]["reasons"]["accepted"] >= 1
    assert load_experiment(out).sites[0].bus == "square"
    assert run("feeder", "init", circuit, "--out", out, "--candidates", 8).exit_code == 1
    library = tmp_path / "library"
    assert run("build", "--system", out, "--candidates", 8, "--jobs", 1, "--no-report", "--out", library).exit_code == 0
    assert json.loads(run("info", library, "--json").output)["records"] >= 1
