"""Settings: defaults, openg2g's flat names, and a refusal that names the field and the value for everything else."""

import json
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from scenario_lib._values import shown
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range

NAN, INFINITY = float("nan"), float("inf")

# openg2g's names and the defaults of its build command.
DEFAULTS: dict[str, Any] = {
    "randomization_profile": True,
    "randomize_ramps": True,
    "pv_scale_min": 0.5,
    "pv_scale_max": 2.0,
    "load_scale_min": 0.5,
    "load_scale_max": 2.0,
    "pv_t_shift_max_s": 0.0,
    "tvl_t_shift_max_s": 0.0,
    "pv_warp_min": 1.0,
    "pv_warp_max": 1.0,
    "tvl_warp_min": 1.0,
    "tvl_warp_max": 1.0,
    "overlay_prob": 1.0,
    "overlay_intensity_min": 1.0,
    "overlay_intensity_max": 1.0,
    "overlay_gpu_frac_min": 0.85,
    "overlay_gpu_frac_max": 1.0,
    "n_ramps_per_site_choices": [1],
    "ramp_up_prob": 0.0,
    "ramp_up_frac_min": 1.05,
    "ramp_up_frac_max": 1.5,
    "ramp_down_frac_min": 0.5,
    "ramp_down_frac_max": 0.85,
    "ramp_start_min": 500.0,
    "ramp_start_max": 3000.0,
    "ramp_dur_min": 300.0,
    "ramp_dur_max": 800.0,
    "ramp_frac_min": 0.15,
    "ramp_frac_max": 0.3,
    "randomize_pv_profile": False,
    "randomize_tvl_profile": False,
    "pv_baseline_min": 0.75,
    "pv_baseline_max": 0.95,
    "pv_cloud_count_max": 3,
    "pv_cloud_depth_min": 0.3,
    "pv_cloud_depth_max": 0.7,
    "pv_cloud_width_min": 60.0,
    "pv_cloud_width_max": 300.0,
    "pv_shape_choices": ["flat", "rising_falling", "morning_ramp", "afternoon_decline", "midday_dip"],
    "tvl_shape_choices": ["flat", "increasing", "decreasing", "peaked", "valley"],
}
RANGES = tuple(field.name for field in fields(RandomizationSettings) if isinstance(field.default, Range))
UP_TO_ONE = ("ramp_down_frac", "ramp_frac", "pv_cloud_depth")
FLAGS = ("randomization_profile", "randomize_ramps", "randomize_pv_profile", "randomize_tvl_profile")
CHOICES = ("n_ramps_per_site_choices", "pv_shape_choices", "tvl_shape_choices")


def refusal(name: str, value: object, **others: object) -> str:
    with pytest.raises(InvalidSettingError) as caught:
        RandomizationSettings.from_openg2g({**others, name: value})
    return str(caught.value)


def test_defaults_by_their_flat_names() -> None:
    flat = RandomizationSettings().to_openg2g()
    assert flat == DEFAULTS
    assert json.loads(json.dumps(flat)) == flat
    assert len(RANGES) == 14


def test_flat_names_are_read_back() -> None:
    changed = {
        name: value + 0.001 if isinstance(value, float) and name.endswith("_max") and value != 1.0 else value
        for name, value in DEFAULTS.items()
    }
    changed |= {"pv_shape_choices": ["midday_dip", "flat"], "n_ramps_per_site_choices": [3, 1], "overlay_prob": 0.25}
    changed |= {"randomize_ramps": False, "randomize_pv_profile": True, "pv_cloud_count_max": 0}
    settings = RandomizationSettings.from_openg2g(changed)
    assert settings.to_openg2g() == changed
    assert settings.pv_scale == Range(0.5, 2.001)
    assert settings.pv_shape_choices == ("midday_dip", "flat")
    assert RandomizationSettings.from_openg2g(settings.to_openg2g()) == settings


def test_names_left_out_keep_their_defaults() -> None:
    assert RandomizationSettings.from_openg2g({}) == RandomizationSettings()
    settings = RandomizationSettings.from_openg2g({"pv_scale_max": 3})
    assert settings == replace(RandomizationSettings(), pv_scale=Range(0.5, 3.0))


def test_equal_settings_are_equal_text() -> None:
    """A recipe's identity is a digest of this text: 1 and 1.0, a pair and a `Range`, must not tell two apart."""
    whole = RandomizationSettings(overlay_prob=1, pv_t_shift_max_s=60, pv_scale=Range(1, 2))
    point = RandomizationSettings(overlay_prob=1.0, pv_t_shift_max_s=60.0, pv_scale=Range(1.0, 2.0))
    assert json.dumps(whole.to_openg2g()) == json.dumps(point.to_openg2g())


def test_plain_pairs_and_lists_are_taken() -> None:
    pair: Any = (1.0, 2.0)
    listed: Any = ["flat"]
    settings = RandomizationSettings(ramp_dur=pair, pv_shape_choices=listed)
    assert isinstance(settings.ramp_dur, Range)
    assert settings.ramp_dur.high == 2.0
    assert settings.pv_shape_choices == ("flat",)
    assert hash(settings) == hash(RandomizationSettings(ramp_dur=Range(1.0, 2.0), pv_shape_choices=("flat",)))


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        RandomizationSettings().overlay_prob = 0.5  # type: ignore[misc]


@pytest.mark.parametrize("name", ["pv_scale", "pv_scale_mim", "seed", "ramps"])
def test_unknown_names_are_named_with_the_known_ones(name: str) -> None:
    message = refusal(name, 1)
    assert f"unknown randomisation settings: {name};" in message
    assert "did you mean" in message or "expected one of" in message
    assert len(message) < 400, "a few of the known names, not all"


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY, True, "0.5", None, [1.0], 10**400])
def test_an_end_of_a_range_is_a_finite_number(name: str, end: str, value: object) -> None:
    assert refusal(f"{name}_{end}", value) == f"{name}_{end} is {shown(value)}; expected a finite number"


@pytest.mark.parametrize("name", RANGES)
def test_negative_and_reversed_ranges_are_refused(name: str) -> None:
    assert f"{name}_min is -0.5; expected at least" in refusal(f"{name}_min", -0.5)
    top = DEFAULTS[f"{name}_max"]
    above = 0.99 if name in UP_TO_ONE else top + 1
    message = refusal(f"{name}_min", above, **{f"{name}_max": above - 0.1})
    assert (
        message
        == f"{name}_min, {name}_max is {(above, above - 0.1)!r}; expected a lower end that is not above the upper end"
    )


@pytest.mark.parametrize("name", RANGES)
def test_equal_ends_are_allowed(name: str) -> None:
    settings = RandomizationSettings.from_openg2g({f"{name}_min": 0.5, f"{name}_max": 0.5})
    assert getattr(settings, name) == (0.5, 0.5)


@pytest.mark.parametrize("name", UP_TO_ONE)
def test_fractions_stay_within_one(name: str) -> None:
    assert refusal(f"{name}_max", 1.01) == f"{name}_max is 1.01; expected between 0 and 1"
    assert getattr(RandomizationSettings.from_openg2g({f"{name}_max": 1}), name).high == 1


def test_starts_stay_within_the_hour() -> None:
    assert refusal("ramp_start_max", 3600.5) == "ramp_start_max is 3600.5; expected between 0 and 3600"


@pytest.mark.parametrize("name", ["pv_warp", "tvl_warp", "overlay_intensity"])
def test_what_divides_or_scales_is_not_zero(name: str) -> None:
    assert refusal(f"{name}_min", 0.0) == f"{name}_min is 0.0; expected at least 0.01"


def test_clouds_have_a_width() -> None:
    assert refusal("pv_cloud_width_min", 0.0) == "pv_cloud_width_min is 0.0; expected at least 1e-06"


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("value", [1.0, (1.0,), (1.0, 2.0, 3.0), None, "one to two"])
def test_a_range_is_a_pair(name: str, value: Any) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        RandomizationSettings(**{name: value})
    assert str(caught.value) == f"{name} is {value!r}; expected a pair (low, high)"


@pytest.mark.parametrize("name", ["overlay_prob", "ramp_up_prob"])
@pytest.mark.parametrize("value", [1.5, -0.1, 1.0000001])
def test_probabilities_are_between_0_and_1(name: str, value: float) -> None:
    assert refusal(name, value) == f"{name} is {value}; expected between 0 and 1"


@pytest.mark.parametrize("name", ["overlay_prob", "ramp_up_prob", "pv_t_shift_max_s", "tvl_t_shift_max_s"])
@pytest.mark.parametrize("value", [NAN, INFINITY, True, "0.5", None])
def test_scalars_are_finite_numbers(name: str, value: object) -> None:
    assert refusal(name, value) == f"{name} is {value!r}; expected a finite number"


@pytest.mark.parametrize("name", ["pv_t_shift_max_s", "tvl_t_shift_max_s"])
def test_negative_durations_are_refused(name: str) -> None:
    assert refusal(name, -1.0) == f"{name} is -1.0; expected at least 0"
    assert refusal("ramp_dur_min", -30.0) == "ramp_dur_min is -30.0; expected at least 0"


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [1, 0, "true", None, 1.0])
def test_flags_are_true_or_false(name: str, value: object) -> None:
    assert refusal(name, value) == f"{name} is {value!r}; expected true or false"


@pytest.mark.parametrize(("value", "expected"), [(-1, "at least 0"), (2.0, "a whole number"), (True, "a whole number")])
def test_cloud_count_is_a_count(value: object, expected: str) -> None:
    assert refusal("pv_cloud_count_max", value) == f"pv_cloud_count_max is {value!r}; expected {expected}"


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", [[], "flat", 1, None, {}])
def test_choices_are_lists_with_an_entry(name: str, value: object) -> None:
    assert refusal(name, value) == f"{name} is {value!r}; expected a list with at least one entry"


@pytest.mark.parametrize("name", ["pv_shape_choices", "tvl_shape_choices"])
@pytest.mark.parametrize("shape", ["wavy", "Flat", "", 1, None, ["flat"]])
def test_unknown_shapes_are_refused_with_the_known_ones(name: str, shape: object) -> None:
    known = ", ".join(DEFAULTS[name])
    assert refusal(name, ["flat", shape]) == f"{name} is {shape!r}; expected one of {known}"


def test_shapes_of_the_other_kind_are_unknown() -> None:
    assert "'peaked'" in refusal("pv_shape_choices", ["peaked"])
    assert "'midday_dip'" in refusal("tvl_shape_choices", ["midday_dip"])


@pytest.mark.parametrize(("count", "expected"), [(-1, "at least 0"), (1.0, "a whole number"), (True, "a whole number")])
def test_numbers_of_ramps_are_counts(count: object, expected: str) -> None:
    assert (
        refusal("n_ramps_per_site_choices", [1, count]) == f"n_ramps_per_site_choices is {count!r}; expected {expected}"
    )


def test_every_setting_is_checked_somewhere_above() -> None:
    checked = {*RANGES, *FLAGS, *CHOICES, "overlay_prob", "ramp_up_prob", "pv_t_shift_max_s", "tvl_t_shift_max_s"}
    assert {field.name for field in fields(RandomizationSettings)} == checked | {"pv_cloud_count_max"}


MOVED: dict[str, dict[str, Any]] = {
    **{f"{name}_min": {f"{name}_min": 0.9, f"{name}_max": 0.9} for name in ("pv_scale", "load_scale", "ramp_frac")},
    **{
        f"{name}_min": {f"{name}_min": 1.5, f"{name}_max": 1.5} for name in ("pv_warp", "tvl_warp", "overlay_intensity")
    },
    **{f"{name}_min": {f"{name}_min": 0.4, f"{name}_max": 0.4} for name in ("overlay_gpu_frac", "ramp_down_frac")},
    **{f"{name}_min": {f"{name}_min": 700, f"{name}_max": 700} for name in ("ramp_start", "ramp_dur")},
    **{name: {name: 100.0} for name in ("pv_t_shift_max_s", "tvl_t_shift_max_s")},
    **{name: {name: True} for name in ("randomize_pv_profile", "randomize_tvl_profile")},
    **{name: {name: ["flat"]} for name in ("pv_shape_choices", "tvl_shape_choices")},
    **{f"{name}_min": {f"{name}_min": 0.5, f"{name}_max": 0.5} for name in ("pv_baseline", "pv_cloud_depth")},
    "pv_cloud_width_min": {"pv_cloud_width_min": 90, "pv_cloud_width_max": 90},
    "pv_cloud_count_max": {"pv_cloud_count_max": 1},
    "n_ramps_per_site_choices": {"n_ramps_per_site_choices": [2]},
    "ramp_up_prob": {"ramp_up_prob": 1.0},
    "overlay_prob": {"overlay_prob": 0.0},
}


def given(**flat: Any) -> dict[str, str]:
    return RandomizationSettings.from_openg2g(flat).unread(flat)


SAMPLED = {"randomize_pv_profile": True, "randomize_tvl_profile": True}


def digests(flat: dict[str, Any]) -> list[str]:
    settings = RandomizationSettings.from_openg2g(flat)
    feeder = load_experiment("ieee13")
    return [scenario_digest(randomize_scenario(seed, experiment=feeder, settings=settings)) for seed in range(12)]


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize(
    "base",
    [{}, SAMPLED, {"randomization_profile": False}, {"randomize_ramps": False}],
    ids=("", "pv", "narrow", "still"),
)
def test_unread_settings_change_no_draw_and_others_do(name: str, base: dict[str, Any]) -> None:
    moved = {**base, **MOVED[name]}
    unread = RandomizationSettings.from_openg2g(moved).unread(MOVED[name])
    if base.keys() >= MOVED[name].keys():
        assert unread == {}
    else:
        assert (name in unread) == (digests(base) == digests(moved))


def test_unread_settings_say_what_would_have_them_read() -> None:
    assert given(ramp_frac_min=0.2) == {"ramp_frac_min": "randomization_profile = false"}
    assert given(pv_shape_choices=["flat"]) == {"pv_shape_choices": "randomize_pv_profile = true"}
    assert given(randomization_profile=False, pv_scale_max=1.5) == {"pv_scale_max": "randomization_profile = true"}
    assert given(randomize_ramps=False, ramp_frac_max=0.9) == {
        "ramp_frac_max": "randomization_profile = false and randomize_ramps = true"
    }
    assert given(randomization_profile=False, randomize_pv_profile=False, ramp_frac_min=0.2) == {}
    assert given(randomize_pv_profile=True, pv_baseline_min=0.8, pv_cloud_count_max=1, load_scale_min=0.9) == {}
