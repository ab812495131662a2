"""Recipe files: parsed strictly, changed by options, the shipped ones as the contract has them."""

from dataclasses import replace
from pathlib import Path

import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError, InvalidSettingError, MissingDataError, ScenarioLibError
from scenario_lib.feeders.experiment import TrainingJob
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.settings import Range
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.recipe_file import parse_recipe, read_recipe_tables, with_request, with_setting
from scenario_lib.screening.request import CandidateRequest


def recipe_of(path: Path):
    return parse_recipe(read_recipe_tables(path), str(path))


@pytest.mark.parametrize(
    ("system", "overlay", "ramps"), [("ieee13", True, True), ("ieee34", False, False), ("ieee123", False, True)]
)
def test_shipped_recipes_have_the_build_defaults_of_their_feeder(system: str, overlay: bool, ramps: bool) -> None:
    recipe = recipe_of(data_dir() / "recipes" / f"{system}.toml")
    experiment = recipe.experiment()
    settings = recipe.settings(experiment)
    assert experiment.name == system
    assert (experiment.overlay is not None) is overlay
    assert settings.randomize_ramps is ramps
    assert settings.ramp_down_frac == Range(0.5, 0.85)
    assert recipe.screening == ScreeningCriteria()
    assert recipe.candidates == CandidateRequest(accept=200, max_candidates=5000)


def test_a_recipe_of_one_line_has_defaults(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('system = "ieee34"\n')
    recipe = recipe_of(tmp_path / "r.toml")
    assert recipe.candidates is None
    assert recipe.screening == ScreeningCriteria()
    assert recipe.experiment() == load_experiment("ieee34")
    assert recipe.settings(recipe.experiment()).randomize_ramps is False, "the experiment's own default"


def test_the_overlay_can_be_left_out_or_changed(tmp_path: Path) -> None:
    base = load_experiment("ieee13")
    assert parse_recipe({"system": "ieee13", "overlay": False}, "r").experiment() == replace(base, overlay=None)
    table = {"n_gpus": 800, "target_peak_w_per_gpu": 300.0, "t_start_s": 100, "t_end_s": 900}
    changed = parse_recipe({"system": "ieee13", "overlay": table}, "r").experiment()
    assert changed.overlay == TrainingJob(800, 300.0, 100.0, 900.0)


def test_an_experiment_file_is_found_beside_the_recipe(village_file: Path, tmp_path: Path, monkeypatch) -> None:
    recipe_file = tmp_path / "recipes" / "r.toml"
    recipe_file.parent.mkdir()
    (tmp_path / "feeder").symlink_to(village_file.parent)
    recipe_file.write_text('system = "../feeder/experiment.toml"\n')
    with monkeypatch.context() as context:
        context.chdir("/")
        assert recipe_of(recipe_file).experiment().name == "village"


TABLES = {"system": "ieee13", "candidates": {"accept": 200, "max_candidates": 5000, "seed_start": 3}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"candidates": 8}, {"candidates": 8, "seed_start": 3}),
        ({"accept": 4}, {"accept": 4, "seed_start": 3}),
        ({"accept": 4, "max_candidates": 50}, {"accept": 4, "max_candidates": 50, "seed_start": 3}),
        ({"seeds": (7, 1007)}, {"seeds": (7, 1007), "seed_start": 3}),
        ({"max_candidates": 50}, {"accept": 200, "max_candidates": 50, "seed_start": 3}),
        ({"seed_start": 0}, {"accept": 200, "max_candidates": 5000, "seed_start": 0}),
    ],
)
def test_options_win_over_the_recipes_candidates(options: dict, expected: dict) -> None:
    assert with_request(TABLES, options)["candidates"] == expected
    assert TABLES["candidates"]["accept"] == 200, "the tables themselves stay"


def test_a_setting_goes_where_it_belongs() -> None:
    tables = with_setting({"system": "ieee13", "randomization": {"ramp_up_prob": 0.1}}, "ramp_up_prob", 0.4)
    tables = with_setting(tables, "min_recovery_frac", 0.5)
    tables = with_setting(tables, "pv_shape_choices", ["flat"])
    recipe = parse_recipe(tables, "r")
    settings = recipe.settings(recipe.experiment())
    assert settings.ramp_up_prob == 0.4
    assert settings.pv_shape_choices == ("flat",)
    assert recipe.screening.min_recovery_frac == 0.5


def test_an_unknown_setting_names_the_known_ones() -> None:
    with pytest.raises(InvalidSettingError, match="'ramp_up' is not known; did you mean .*'ramp_up_prob'"):
        with_setting({}, "ramp_up", 0.4)


@pytest.mark.parametrize("name", ["quota", "accept", "candidates", "seeds", "seed_start", "max_candidates"])
def test_what_says_which_candidates_are_tried_is_pointed_to_its_place(name: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"'{name}' is none of the draws .*recipe file, such as candidates ="):
        with_setting({}, name, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "ieee13"\nsurprise = 1', "surprise"),
        ("overlay = true", "system"),
        ('system = "ieee13"\n[screening]\nmin_recovery = 0.5', "screening.min_recovery"),
        ('system = "ieee13"\n[screening]\nmin_recovery_frac = "half"', "screening.min_recovery_frac is 'half'"),
        ('system = "ieee13"\n[screening]\nmin_recovery_frac = nan', "screening.min_recovery_frac is nan"),
        ('system = "ieee13"\n[screening]\nmax_always_min = -1', "max_always_min is -1"),
        ('system = "ieee13"\n[candidates]\ncandidates = 0', "candidates is 0"),
        ('system = "ieee13"\n[candidates]', "expected a number of candidates"),
        ('system = "ieee13"\noverlay = "no"', "overlay"),
        ('system = "ieee13"\n[overlay]\nn_gpus = -1', "overlay"),
        ('system = "ieee13"\nsystem = "ieee34"', "not a TOML file"),
        ('system = "ieee13', "not a TOML file"),
        ("system = 13", "system is 13"),
    ],
)
def test_a_faulty_recipe_is_one_line_that_names_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(DataFileError) as caught:
        recipe_of(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ramp_up_prob = 2", "ramp_up_prob is 2; expected between 0 and 1"),
        ("ramp_up = 0.5", "unknown randomisation settings: ramp_up"),
        ("pv_scale_min = 3.0", "pv_scale_min, pv_scale_max is"),
        ('pv_shape_choices = ["spiral"]', "pv_shape_choices is 'spiral'"),
    ],
)
def test_a_faulty_randomisation_names_the_file_too(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text(f'system = "ieee13"\n[randomization]\n{text}\n')
    with pytest.raises(ScenarioLibError) as caught:
        recipe = recipe_of(path)
        recipe.settings(recipe.experiment())
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_and_undecodable_files(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"absent.toml: no such file"):
        read_recipe_tables(tmp_path / "absent.toml")
    (tmp_path / "b.toml").write_bytes(b'system = "\xff"')
    with pytest.raises(DataFileError, match=r"b.toml: not a TOML file"):
        read_recipe_tables(tmp_path / "b.toml")
