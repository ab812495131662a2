"""`config`, the other half of the contract with openg2g's example: written with its keys, read by its rules."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenario_lib.errors import InvalidSettingError, LibraryError, UnknownNameError
from scenario_lib.library.metadata import config_of, recipe_from_config
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings, Range

# Keys that openg2g's example writes.
OPENG2G_CONFIG_KEYS = {
    "system",
    "n_candidates",
    "min_recovery_frac",
    "max_recovery_frac",
    "min_baseline_integral",
    "pv_base_kw",
    "tvl_base_kw",
    "use_training_overlay",
    "randomize_ramps",
    "randomize_kwargs",
    "pv_systems_base",
    "tvl_base",
    "v_min",
    "v_max",
    "training_base",
}
OPENG2G_SETTINGS = {
    *("randomization_profile", "randomize_ramps", "randomize_pv_profile", "randomize_tvl_profile"),
    *("pv_scale_min", "pv_scale_max", "load_scale_min", "load_scale_max"),
    *("pv_t_shift_max_s", "tvl_t_shift_max_s", "pv_warp_min", "pv_warp_max", "tvl_warp_min", "tvl_warp_max"),
    *("overlay_prob", "overlay_intensity_min", "overlay_intensity_max"),
    *("overlay_gpu_frac_min", "overlay_gpu_frac_max"),
    *("n_ramps_per_site_choices", "ramp_up_prob", "ramp_up_frac_min", "ramp_up_frac_max"),
    *("ramp_down_frac_min", "ramp_down_frac_max"),
    *("ramp_start_min", "ramp_start_max", "ramp_dur_min", "ramp_dur_max"),
    *("pv_shape_choices", "tvl_shape_choices", "pv_baseline_min", "pv_baseline_max"),
    *("pv_cloud_count_max", "pv_cloud_depth_min", "pv_cloud_depth_max"),
    *("pv_cloud_width_min", "pv_cloud_width_max"),
}
BANDS = {"min_recovery_frac": 0.7, "max_recovery_frac": 1.0, "min_baseline_integral": 0.2}


@pytest.fixture
def config(openg2g_path: Path) -> dict[str, Any]:
    return json.loads((openg2g_path / "metadata.json").read_text())["config"]


def test_the_example_library_has_the_keys_listed_here(config) -> None:
    assert set(config) == OPENG2G_CONFIG_KEYS
    assert set(config["randomize_kwargs"]) == OPENG2G_SETTINGS


def test_what_we_write_is_what_openg2g_writes(recipe: Recipe, config: dict[str, Any]) -> None:
    ours = config_of(recipe, 8, BANDS)
    assert json.loads(json.dumps(ours)) == config


def test_without_an_overlay_there_is_no_training_base(recipe: Recipe) -> None:
    ours = config_of(replace(recipe, experiment=replace(recipe.experiment, overlay=None)), 3, BANDS)
    assert set(ours) == OPENG2G_CONFIG_KEYS
    assert ours["training_base"] is None
    assert ours["use_training_overlay"] is False
    assert ours["n_candidates"] == 3


def test_a_narrow_band_is_written_where_it_is_not_the_default(recipe: Recipe) -> None:
    narrow = replace(recipe, settings=RandomizationSettings(randomization_profile=False, ramp_frac=Range(0.2, 0.3)))
    kwargs = config_of(narrow, 1, BANDS)["randomize_kwargs"]
    assert kwargs["ramp_frac_min"] == 0.2
    assert recipe_from_config(json.loads(json.dumps(config_of(narrow, 1, BANDS))), "x").settings == narrow.settings


def test_config_read_gives_the_shipped_experiment_and_the_settings(config, recipe: Recipe) -> None:
    read = recipe_from_config(config, "metadata.json")
    assert read.experiment == recipe.experiment
    assert read.settings == recipe.settings
    assert read.data is None


@pytest.mark.parametrize(
    ("dropped", "field", "implied"),
    [
        (("ramp_down_frac_min", "ramp_down_frac_max"), "ramp_down_frac", Range(0.15, 0.5)),
        (("ramp_frac_min", "ramp_frac_max"), "ramp_frac", Range(0.15, 0.3)),
        (("pv_scale_min",), "pv_scale", Range(0.5, 2.0)),
    ],
)
def test_names_left_out_have_the_defaults_of_openg2gs_function(config, dropped, field, implied) -> None:
    for name in dropped:
        config["randomize_kwargs"].pop(name, None)
    assert getattr(recipe_from_config(config, "x").settings, field) == implied


def test_randomize_kwargs_wins_over_the_flag_beside_it(config) -> None:
    config["randomize_ramps"] = True
    config["randomize_kwargs"]["randomize_ramps"] = False
    assert recipe_from_config(config, "x").settings.randomize_ramps is False
    del config["randomize_kwargs"]["randomize_ramps"]
    config["randomize_ramps"] = False
    assert recipe_from_config(config, "x").settings.randomize_ramps is False


def test_stored_bases_and_training_base_win_over_the_feeder(config) -> None:
    config["pv_systems_base"] = [{"bus": "634", "bus_kv": 0.48, "peak_kw": 12.5}]
    config["tvl_base"] = []
    config["use_training_overlay"] = True
    config["training_base"] = None
    experiment = recipe_from_config(config, "x").experiment
    assert [(pv.bus, pv.bus_kv, pv.peak_kw_per_phase, pv.power_factor) for pv in experiment.pv_systems] == [
        ("634", 0.48, 12.5, 1.0)
    ]
    assert experiment.loads == ()
    assert experiment.overlay is None


def test_an_unknown_system_names_the_known_ones(config) -> None:
    config["system"] = "ieee8500"
    with pytest.raises(
        UnknownNameError, match=r"metadata.json: system 'ieee8500' is not known.*ieee123, ieee13, ieee34"
    ):
        recipe_from_config(config, "metadata.json")


@pytest.mark.parametrize("system", ["../ieee13", "/tmp/own/experiment.toml", "own.toml", "", "ieee13/../ieee13"])
def test_a_library_cannot_point_to_a_file(config, system: str) -> None:
    config["system"] = system
    with pytest.raises(UnknownNameError, match=r"metadata.json: system .* is not known.*ieee123, ieee13, ieee34"):
        recipe_from_config(config, "metadata.json")


@pytest.mark.parametrize(
    "key", sorted(OPENG2G_CONFIG_KEYS & {"system", "randomize_kwargs", "tvl_base", "training_base"})
)
def test_a_missing_key_is_named(config, key: str) -> None:
    del config[key]
    with pytest.raises(LibraryError, match=f"metadata.json: config has no '{key}'"):
        recipe_from_config(config, "metadata.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("system", ["ieee13"]),
        ("system", None),
        ("randomize_kwargs", None),
        ("randomize_kwargs", [1]),
        ("randomize_kwargs", {"pv_scale_min": "half"}),
        ("randomize_kwargs", {"pv_scale_min": 3.0, "pv_scale_max": 2.0}),
        ("randomize_kwargs", {"n_ramps_per_site_choices": 1}),
        ("randomize_kwargs", {"pv_shape_choices": ["spiral"]}),
        ("randomize_kwargs", {"surprise": 1}),
        ("pv_systems_base", [{"bus": "675", "bus_kv": 4.16}]),
        ("pv_systems_base", [{"bus": "675", "bus_kv": 4.16, "peak_kw": float("inf")}]),
        ("pv_systems_base", [{"bus": 675, "bus_kv": 4.16, "peak_kw": 300.0}]),
        ("pv_systems_base", [{"bus": "", "bus_kv": 4.16, "peak_kw": 300.0}]),
        ("tvl_base", [{"bus": "680", "bus_kv": -1, "peak_kw": 300.0}]),
        ("tvl_base", 5),
        ("tvl_base", {"bus": "680"}),
        ("training_base", []),
        ("training_base", {"n_gpus": 10**400, "target_peak_W_per_gpu": 400.0, "t_start": 1000.0, "t_end": 2000.0}),
        ("training_base", {"n_gpus": 2.5, "target_peak_W_per_gpu": 400.0, "t_start": 1000.0, "t_end": 2000.0}),
        ("training_base", {"n_gpus": 2400, "target_peak_W_per_gpu": -4.0, "t_start": 1000.0, "t_end": 2000.0}),
        ("training_base", {"n_gpus": 2400, "target_peak_W_per_gpu": 400.0, "t_start": 3000.0, "t_end": 2000.0}),
    ],
)
def test_a_value_that_cannot_be_is_one_line_with_the_place(config, key: str, value: object) -> None:
    config[key] = value
    with pytest.raises((LibraryError, UnknownNameError, InvalidSettingError)) as caught:
        recipe_from_config(config, "metadata.json")
    message = str(caught.value)
    assert message.startswith("metadata.json: ")
    assert "\n" not in message
