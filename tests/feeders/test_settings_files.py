"""Settings files of every kind: what is odd about the file itself, and files given to the wrong command."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError, InvalidSettingError, MissingDataError, ScenarioLibError
from scenario_lib.feeders.experiment_file import read_experiment
from scenario_lib.learning.settings import parse_settings, read_settings_tables
from scenario_lib.models.specs import load_model
from scenario_lib.nightly.config import read_nightly
from scenario_lib.screening.recipe_file import parse_strata, read_recipe_tables

RECIPE = 'system = "ieee13"\n[candidates]\ncandidates = 8\n'
TRAINING = "steps = 1000\n[ppo]\ngamma = 0.9\n"
NIGHTLY = 'root = "nights"\nrecipe = "recipe.toml"\n'

READERS: dict[str, Callable[[Path], Any]] = {
    "a recipe": lambda path: parse_strata(read_recipe_tables(path), str(path)),
    "settings of a training": lambda path: parse_settings(read_settings_tables(path), str(path)),
    "a nightly run": read_nightly,
    "an experiment": read_experiment,
    "a model": load_model,
}
every_kind = pytest.mark.parametrize("kind", READERS)


def text_of(kind: str, folder: Path) -> str:
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    feeder = data_dir() / "feeders" / "ieee13"
    for circuit in feeder.glob("*.dss"):
        (folder / circuit.name).write_bytes(circuit.read_bytes())
    texts = {
        "a recipe": RECIPE,
        "settings of a training": TRAINING,
        "a nightly run": NIGHTLY,
        "an experiment": (feeder / "experiment.toml").read_text(encoding="utf-8"),
        "a model": (data_dir() / "models" / "Llama-3.1-8B.toml").read_text(encoding="utf-8"),
    }
    return texts[kind]


@every_kind
def test_a_byte_order_mark_is_read(tmp_path: Path, kind: str) -> None:
    plain, marked = tmp_path / "plain.toml", tmp_path / "marked.toml"
    plain.write_text(text_of(kind, tmp_path), encoding="utf-8")
    marked.write_text(text_of(kind, tmp_path), encoding="utf-8-sig")
    assert READERS[kind](marked) == READERS[kind](plain)


ODD_FILES = {
    "deep lists": "a = " + "[" * 50_000,
    "deep closed lists": f"a = {'[' * 5000}{']' * 5000}",
    "deep tables": "a = " + "{b = " * 5000,
    "deep keys": f"[{'a.' * 5000}a]",
    "many digits": f"steps = {'9' * 5000}",
    "many digits in a list": f"a = [1, {'9' * 100_000}]",
    "unknown keys": "\n".join(f"unknown_{i} = 1" for i in range(40_000)),
    "a long name": f"{'n' * 100_000} = 1",
    "a long text": f'system = "{"x" * 100_000}"\nsteps = "{"y" * 100_000}"',
    "too large": "# " + "x" * (5 * 1024**2),
    "zeros": "\0" * 1000,
    "a key twice": "a = 1\na = 2",
    "UTF-16": "",
}


@every_kind
@pytest.mark.parametrize("odd", ODD_FILES)
def test_an_odd_file_is_refused_in_one_short_line_soon(tmp_path: Path, kind: str, odd: str) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(ODD_FILES[odd], encoding="utf-8")
    if odd == "UTF-16":
        path.write_text(text_of(kind, tmp_path), encoding="utf-16")
    started = time.process_time()
    with pytest.raises(ScenarioLibError) as caught:
        READERS[kind](path)
    assert time.process_time() - started < 5
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 1500


@every_kind
def test_a_folder_or_an_absent_file_is_named(tmp_path: Path, kind: str) -> None:
    for path in (tmp_path, tmp_path / "absent.toml"):
        with pytest.raises(MissingDataError, match="no such file; give the path of a TOML file"):
            READERS[kind](path)


@every_kind
@pytest.mark.parametrize("given", READERS)
def test_a_file_of_another_kind_says_what_it_is(tmp_path: Path, kind: str, given: str) -> None:
    path = tmp_path / "given.toml"
    path.write_text(text_of(given, tmp_path), encoding="utf-8")
    if given == kind:
        READERS[kind](path)
        return
    with pytest.raises(InvalidSettingError, match=rf"given\.toml: is {given}.*; expected {kind}"):
        READERS[kind](path)


@pytest.mark.parametrize(
    ("kind", "text", "hint"),
    [
        (
            "a recipe",
            RECIPE.replace("[candidates]", "[candidate]"),
            "candidate: is not known; did you mean 'candidates'?",
        ),
        ("a recipe", RECIPE.replace("candidates =", "candidats ="), "did you mean .*'candidates'"),
        ("a recipe", RECIPE + "[screening]\nmin_recovery = 0.5", "did you mean .*'min_recovery_frac'"),
        ("a recipe", RECIPE + "[randomization]\nramp_up_probability = 0.5", "did you mean .*'ramp_up_prob'"),
        ("a recipe", RECIPE + "[overlay]\nn_gpu = 5", "did you mean .*'n_gpus'"),
        ("a recipe", RECIPE.replace("candidates = 8", "quota = {undr = 5}"), "did you mean 'under'"),
        ("a nightly run", NIGHTLY + "[limits]\nmin_acepted = 1", "did you mean 'min_accepted'"),
        ("a nightly run", NIGHTLY + "[retention]\ngood = 1", "retention: is not known; expected one of root"),
        ("settings of a training", TRAINING.replace("gamma", "gama"), "did you mean 'gamma'"),
        ("settings of a training", TRAINING + "[reward]\nw_voltag = 1", "did you mean 'w_voltage'"),
        ("settings of a training", TRAINING + "[enviroment]\naction = 'delta'", "did you mean 'environment'"),
    ],
)
def test_a_misspelt_name_is_told_what_was_probably_meant(tmp_path: Path, kind: str, text: str, hint: str) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    path = tmp_path / "file.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=hint) as caught:
        READERS[kind](path)
    assert "keyword" not in str(caught.value)
