"""Profiles: golden values, and what every profile must be like."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenario_lib._arrays import Floats
from scenario_lib.feeders.sites import PowerSeries
from scenario_lib.scenario.model import ScenarioPower
from scenario_lib.scenario.profiles import (
    LOAD_SHAPES,
    PV_SHAPES,
    AnalyticLoad,
    AnalyticPV,
    Cloud,
    Noise,
    Profile,
    SampledLoad,
    SampledPV,
    SeriesProfile,
    bump,
    fluctuation,
    smoothstep,
)

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "profiles.json").read_text(encoding="utf-8"))
T = np.array(GOLDEN["t_s"], float)
PEAK_KW = 300.0
HOUR = np.arange(3600.0)
# Sines differ in the last bit between processors.
CLOSE = {"rel": 1e-12, "abs": 1e-12}


def sampled(kind: str, params: dict[str, Any]) -> SampledPV | SampledLoad:
    """The profile that a library's `profile_params` mean."""
    rest = dict(params)
    noise = Noise(rest.pop("noise_amp"), rest.pop("noise_seed"))
    if kind != "pv":
        return SampledLoad(LOAD_SHAPES[rest.pop("shape")](**rest), noise)
    clouds = tuple(Cloud(*cloud) for cloud in rest.pop("clouds"))
    return SampledPV(PV_SHAPES[rest.pop("shape")](**rest), clouds, noise)


def placed(profile: Profile, peak_kw: float, t_shift_s: float = 0.0, time_warp: float = 1.0) -> ScenarioPower:
    return ScenarioPower("1", 4.16, peak_kw, 1.0, t_shift_s, time_warp, profile)


def at(profile: Profile, times: Floats, peak_kw: float = PEAK_KW) -> list[float]:
    return placed(profile, peak_kw).kw_per_phase(times).tolist()


def test_helpers_have_the_golden_values() -> None:
    assert bump(T, 1200, 900).tolist() == pytest.approx(GOLDEN["smooth_bump"], **CLOSE)
    assert smoothstep(T, 500, 2500).tolist() == pytest.approx(GOLDEN["smoothstep"], **CLOSE)
    assert fluctuation(T, 1.7).tolist() == pytest.approx(GOLDEN["irregular_fluctuation"], **CLOSE)


@pytest.mark.parametrize("index", GOLDEN["pv_analytic"])
def test_analytic_pv_has_the_golden_values(index: str) -> None:
    assert at(AnalyticPV(int(index)), T) == pytest.approx(GOLDEN["pv_analytic"][index], **CLOSE)


@pytest.mark.parametrize("index", GOLDEN["load_analytic"])
def test_analytic_load_has_the_golden_values(index: str) -> None:
    assert at(AnalyticLoad(int(index)), T) == pytest.approx(GOLDEN["load_analytic"][index], **CLOSE)


@pytest.mark.parametrize("case", GOLDEN["sampled"], ids=lambda case: f"{case['kind']}-{case['params']['shape']}")
def test_sampled_profile_has_the_golden_values(case: dict[str, Any]) -> None:
    profile = sampled(case["kind"], case["params"])
    assert at(profile, T, case["peak_kw"]) == pytest.approx(case["kw"], **CLOSE)
    assert profile.params() == case["params"]


def test_golden_values_cover_every_shape() -> None:
    covered = {(case["kind"], case["params"]["shape"]) for case in GOLDEN["sampled"]}
    assert covered == {("pv", shape) for shape in PV_SHAPES} | {("load", shape) for shape in LOAD_SHAPES}
    assert set(GOLDEN["pv_analytic"]) >= {"0", "1", "2", "3"}
    assert set(GOLDEN["load_analytic"]) >= {"0", "1", "2", "3", "4", "5"}


def test_shifted_and_warped_profiles_have_the_golden_values() -> None:
    for case in GOLDEN["analytic_shifted"]:
        shifted = placed(AnalyticPV(0), PEAK_KW, case["peak_t_shift_s"], case["time_warp"])
        assert shifted.kw_per_phase(T).tolist() == pytest.approx(case["pv"], **CLOSE)
    for case in GOLDEN["analytic_shifted_load"]:
        profile = AnalyticLoad(case["site_index"])
        shifted = placed(profile, PEAK_KW, case["peak_t_shift_s"], case["time_warp"])
        assert shifted.kw_per_phase(T).tolist() == pytest.approx(case["kw"], **CLOSE)
    assert len(GOLDEN["analytic_shifted"]) + len(GOLDEN["analytic_shifted_load"]) >= 2


EVERY_PROFILE: list[Profile] = [
    *(AnalyticPV(index) for index in range(6)),
    *(AnalyticLoad(index) for index in range(8)),
    *(sampled(case["kind"], case["params"]) for case in GOLDEN["sampled"]),
    SeriesProfile(PowerSeries((0.0, 600.0, 3600.0), (10.0, 250.0, 0.0)), 1.5),
]


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=repr)
def test_every_profile_is_vectorised_positive_and_smooth(profile: Profile) -> None:
    power = placed(profile, PEAK_KW).kw_per_phase(HOUR)
    assert power.shape == HOUR.shape
    assert [float(placed(profile, PEAK_KW).kw_per_phase(t)) for t in (0, 1234, 3599)] == [
        power[0],
        power[1234],
        power[3599],
    ]
    assert (power >= 0).all()
    assert power.max() > 0.1 * PEAK_KW
    assert np.abs(np.diff(power)).max() < 0.05 * PEAK_KW


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=repr)
def test_power_scales_with_the_peak_but_for_a_series(profile: Profile) -> None:
    once, twice = (np.array(at(profile, HOUR, peak)) for peak in (PEAK_KW, 2 * PEAK_KW))
    assert twice.tolist() == pytest.approx((once if profile.kind == "series" else 2 * once).tolist(), rel=1e-12)


@pytest.mark.parametrize("profile", EVERY_PROFILE, ids=repr)
def test_only_analytic_profiles_and_series_are_moved_in_time(profile: Profile) -> None:
    moved = placed(profile, PEAK_KW, t_shift_s=100.0, time_warp=1.5).kw_per_phase(HOUR)
    expected = HOUR if profile.kind in ("random_flat", "random_shape") else (HOUR - 100.0) / 1.5
    assert moved.tolist() == at(profile, expected)


def test_series_is_interpolated_held_and_scaled() -> None:
    series = PowerSeries((600.0, 1200.0, 1800.0), (10.0, 40.0, 20.0))
    power = placed(SeriesProfile(series, 0.5), peak_kw=7.0).kw_per_phase([0, 600, 900, 1200, 1650, 1800, 3599])
    assert power.tolist() == [5.0, 5.0, 12.5, 20.0, 12.5, 10.0, 10.0]


def test_clouds_dim_a_sampled_profile_to_a_floor() -> None:
    calm = Noise(amp=0.0, seed=0.0)
    flat = PV_SHAPES["flat"](baseline=0.8)
    clouds = (Cloud(1000.0, 100.0, 0.3), Cloud(2000.0, 100.0, 0.9))
    power = SampledPV(flat, clouds, calm).kw_per_phase(np.array([500.0, 1000.0, 1050.0, 1100.0, 2000.0]), 100.0)
    # Half way out a bump is (1 - 1/4)^2; the second cloud would go below the floor of 0.15.
    assert power.tolist() == pytest.approx([80.0, 50.0, 80.0 - 30.0 * 0.5625, 80.0, 15.0])


def test_load_shapes_at_their_ends() -> None:
    def level(shape: str, t: float, **params: float) -> float:
        return float(LOAD_SHAPES[shape](**params).fraction(np.array([t]))[0])

    assert level("flat", 1800, level=0.6) == 0.6
    assert [level("increasing", t, lo=0.2, hi=0.8) for t in (-9, 0, 1800, 3600, 5000)] == pytest.approx(
        [0.2, 0.2, 0.5, 0.8, 0.8]
    )
    assert [level("decreasing", t, lo=0.2, hi=0.8) for t in (0, 900, 3600)] == pytest.approx([0.8, 0.65, 0.2])
    peaked = {"peak_t": 1000.0, "peak_w": 500.0, "baseline": 0.2, "amp": 0.7}
    assert [level("peaked", t, **peaked) for t in (400, 1000, 1500)] == pytest.approx([0.2, 0.9, 0.2])
    valley = {"valley_t": 1000.0, "valley_w": 500.0, "high": 0.8, "depth": 0.5}
    assert [level("valley", t, **valley) for t in (400, 1000, 1500)] == pytest.approx([0.8, 0.3, 0.8])


def test_bump_and_smoothstep_by_hand() -> None:
    assert bump([0, 50, 100, 150, 200, 250], 100, 100).tolist() == [0.0, 0.5625, 1.0, 0.5625, 0.0, 0.0]
    assert smoothstep([0, 100, 150, 200, 300], 100, 200).tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert smoothstep([99, 100, 101], 100, 100).tolist() == [0.0, 1.0, 1.0]
    assert smoothstep([99, 100, 101], 100, 50).tolist() == [0.0, 1.0, 1.0]


def test_fluctuation_against_plain_sums() -> None:
    for t, phase in ((0.0, 0.0), (17.0, 1.3), (3599.0, 9.7)):
        terms = (
            (0.06, 173.0, phase),
            (0.05, 97.3, 2.3 * phase),
            (0.04, 251.7, 0.7 * phase),
            (0.03, 41.9, 4.1 * phase),
            (0.02, 317.3, 1.9 * phase),
        )
        by_hand = 1.0 + sum(amp * math.sin(2 * math.pi * t / period + offset) for amp, period, offset in terms)
        assert float(fluctuation(t, phase)) == pytest.approx(by_hand, rel=1e-14)
