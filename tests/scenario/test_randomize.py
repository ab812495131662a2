"""A seed means the scenario that it always meant."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.profiles import AnalyticLoad, AnalyticPV, SeriesProfile
from scenario_lib.scenario.randomize import base_scenario, randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range

CASES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "scenarios.json").read_text(encoding="utf-8"))
IN_FULL = [(name, scenario) for name, case in CASES.items() for scenario in case["scenarios"]]
# The golden settings are relative to the defaults of openg2g's function; ours are those of its build command.
FUNCTION_DEFAULTS = {"ramp_down_frac_min": 0.15, "ramp_down_frac_max": 0.5}
SYSTEMS = ("ieee13", "ieee34", "ieee123")
EVERYTHING = RandomizationSettings.from_openg2g(CASES["ieee13/everything"]["settings"])


@dataclass(frozen=True)
class Drawing:
    """What a golden case was drawn from."""

    experiment: Experiment
    settings: RandomizationSettings

    def of(self, seed: int) -> Scenario:
        return randomize_scenario(seed, experiment=self.experiment, settings=self.settings)


def drawing_of(case: dict[str, Any]) -> Drawing:
    experiment = load_experiment(case["system"])
    if case["overlay_gpus"] is not None:
        experiment = replace(experiment, overlay=TrainingJob(case["overlay_gpus"], 400.0, 1000.0, 2000.0))
    elif not case["overlay"]:
        experiment = replace(experiment, overlay=None)
    return Drawing(experiment, RandomizationSettings.from_openg2g({**FUNCTION_DEFAULTS, **case["settings"]}))


@pytest.mark.parametrize(("name", "golden"), IN_FULL, ids=[f"{name}-{golden['seed']}" for name, golden in IN_FULL])
def test_scenario_equals_the_golden_one(name: str, golden: dict[str, Any]) -> None:
    found = drawing_of(CASES[name]).of(golden["seed"]).to_dict()
    assert json.loads(json.dumps(found)) == golden


@pytest.mark.parametrize("name", CASES)
def test_all_golden_seeds_of_a_case_by_digest(name: str) -> None:
    drawing, wanted = drawing_of(CASES[name]), CASES[name]["sha256"]
    found = {}
    for seed in wanted:
        text = json.dumps(drawing.of(int(seed)).to_dict(), sort_keys=True, separators=(",", ":"))
        found[seed] = hashlib.sha256(text.encode()).hexdigest()
    assert found == wanted


def test_golden_cases_cover_feeders_profiles_and_edges() -> None:
    assert sum(len(case["sha256"]) for case in CASES.values()) == 225
    names = {name.split("/")[1] for name in CASES}
    assert names == {"defaults", "narrow", "no_ramps", "everything", "build_default", "edges_1", "edges_2", "edges_3"}
    assert {name.split("/")[0] for name in CASES} == set(SYSTEMS)
    assert {name for name, _ in IN_FULL} == set(CASES)
    counts = {len(site["models"][0]["ramps"]) for _, scenario in IN_FULL for site in scenario["dc_sites"].values()}
    assert counts >= {0, 1, 2, 3, 4, 5, 8}


def test_settings_default_to_the_build_commands() -> None:
    experiment = load_experiment("ieee13")
    assert randomize_scenario(7, experiment=experiment) == drawing_of(CASES["ieee13/build_default"]).of(7)


def plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and plain(entry) for key, entry in value.items())
    if isinstance(value, list):
        return all(plain(entry) for entry in value)
    return value is None or type(value) in (int, float, str, bool)


@pytest.mark.parametrize("system", SYSTEMS)
def test_drawn_values_are_plain(system: str) -> None:
    scenario = randomize_scenario(7, experiment=load_experiment(system), settings=EVERYTHING)
    assert plain(scenario.to_dict())
    assert not plain({"a": [np.float64(1.0)]})


def test_scenario_offers_its_parts() -> None:
    scenario = randomize_scenario(7, experiment=load_experiment("ieee34"))
    flat = scenario.to_dict()
    assert list(flat) == ["seed", "dc_sites", "pv_systems", "tvl", "training_run", "params"]
    assert scenario.seed == 7
    assert list(scenario.dc_sites) == list(flat["dc_sites"]) == ["upstream", "downstream"]
    assert [system.to_dict() for system in scenario.pv_systems] == flat["pv_systems"]
    assert [load.to_dict() for load in scenario.tvl] == flat["tvl"]
    assert scenario.training_run is None
    assert flat["training_run"] is None
    assert scenario.params.to_dict() == flat["params"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_same_seed_same_scenario_and_the_experiment_stays(system: str) -> None:
    experiment = load_experiment(system)
    before = repr(experiment)
    scenarios = [randomize_scenario(seed, experiment=experiment, settings=EVERYTHING) for seed in range(40)]
    again = [randomize_scenario(seed, experiment=experiment, settings=EVERYTHING) for seed in reversed(range(40))]
    assert scenarios == again[::-1]
    assert len({repr(scenario) for scenario in scenarios}) == 40
    assert repr(experiment) == before


@pytest.mark.parametrize("seed", [-1, 1.0, True, "7", None, float("nan")])
def test_seed_is_a_count(seed: Any) -> None:
    with pytest.raises(InvalidSettingError, match=r"^seed is .*expected (a whole number|at least 0)$"):
        randomize_scenario(seed, experiment=load_experiment("ieee13"))


def test_a_large_seed_is_fine() -> None:
    assert randomize_scenario(2**70, experiment=load_experiment("ieee13")).seed == 2**70


@pytest.mark.parametrize("seed", [7, 1007, 3])
def test_the_order_of_draws_by_hand(seed: int) -> None:
    """Without ramps and profiles a scenario is few draws, written out here as the contract has them."""
    base = load_experiment("ieee13")
    assert base.overlay is not None
    settings = RandomizationSettings(
        randomize_ramps=False, overlay_prob=0.9, overlay_intensity=Range(0.5, 1.5), tvl_t_shift_max_s=60.0
    )
    scenario = randomize_scenario(seed, experiment=base, settings=settings)

    rng = np.random.default_rng(seed)
    job = scenario.training_run
    if rng.random() < 0.9:
        assert job is not None
        duration = rng.uniform(500, 1200)
        start = rng.uniform(0, 3600 - duration)
        assert (job.t_start_s, job.t_end_s) == (start, start + duration)
        assert job.n_gpus == int(rng.uniform(0.85, 1.0) * 2400)
        assert job.target_peak_w_per_gpu == 400.0 * rng.uniform(0.5, 1.5)
    else:
        assert job is None
    params = scenario.params
    assert (params.pv_scale, params.load_scale) == (rng.uniform(0.5, 2), rng.uniform(0.5, 2))
    assert (params.pv_t_shift_s, params.tvl_t_shift_s) == (0.0, rng.uniform(-60, 60))
    assert (params.pv_warp, params.tvl_warp) == (rng.uniform(1, 1), rng.uniform(1, 1))
    batches = {model.label: int(rng.choice([32, 64, 128])) for model in base.sites[0].models}
    assert params.initial_batch_sizes == batches
    assert {model.label: model.initial_batch_size for model in scenario.sites[0].models} == batches
    assert scenario.sites[0].seed == base.sites[0].seed
    assert [model.ramps for model in scenario.sites[0].models] == [model.ramps for model in base.sites[0].models]


def test_overlay_probability() -> None:
    experiment = load_experiment("ieee13")

    def share(probability: float) -> float:
        settings = RandomizationSettings(overlay_prob=probability)
        drawn = [randomize_scenario(seed, experiment=experiment, settings=settings) for seed in range(300)]
        return sum(scenario.training_run is not None for scenario in drawn) / 300

    assert share(0.0) == 0.0
    assert share(1.0) == 1.0
    assert share(0.3) == pytest.approx(0.3, abs=0.08)


def test_without_a_base_there_is_no_overlay() -> None:
    experiment = replace(load_experiment("ieee13"), overlay=None)
    assert all(randomize_scenario(seed, experiment=experiment).training_run is None for seed in range(20))


@pytest.mark.parametrize("broad", [True, False])
def test_draws_stay_in_their_ranges(broad: bool) -> None:
    experiment = load_experiment("ieee13")
    settings = replace(EVERYTHING, randomization_profile=broad, overlay_prob=1.0)
    pv, load, intensity, fraction = (
        (settings.pv_scale, settings.load_scale, settings.overlay_intensity, settings.overlay_gpu_frac)
        if broad
        else (Range(0.5, 2.0), Range(0.5, 2.0), Range(1.0, 1.0), Range(0.85, 1.0))
    )
    for seed in range(200):
        scenario = randomize_scenario(seed, experiment=experiment, settings=settings)
        overlay, params = scenario.params.training_overlay, scenario.params
        assert overlay is not None
        assert 500 <= overlay.job.t_end_s - overlay.job.t_start_s <= 1200
        assert overlay.job.t_start_s >= (0 if broad else 500)
        assert overlay.job.t_end_s <= 3600 or not broad
        assert intensity.low <= overlay.intensity <= intensity.high
        assert overlay.job.target_peak_w_per_gpu == 400.0 * overlay.intensity
        assert int(fraction.low * 2400) <= overlay.job.n_gpus <= fraction.high * 2400
        assert pv.low <= params.pv_scale <= pv.high
        assert load.low <= params.load_scale <= load.high
        assert abs(params.pv_t_shift_s) <= (400 if broad else 0)
        assert (0.8 if broad else 1.0) <= params.pv_warp <= (1.25 if broad else 1.0)
        assert scenario.pv_systems[0].peak_kw_per_phase == 300.0 * params.pv_scale
        assert scenario.tvl[0].peak_kw_per_phase == 300.0 * params.load_scale
        assert params.randomization_profile is broad
        assert (scenario.pv_systems[0].profile.kind == "random_flat") is broad
        assert {model.initial_batch_size for model in scenario.sites[0].models} <= {32, 64, 128}


def test_shapes_come_from_the_choices_only() -> None:
    experiment = load_experiment("ieee123")
    settings = replace(EVERYTHING, pv_shape_choices=("midday_dip",), tvl_shape_choices=("valley", "flat"))
    pv, loads = set(), set()
    for seed in range(60):
        scenario = randomize_scenario(seed, experiment=experiment, settings=settings)
        pv |= {system.to_dict()["profile_params"]["shape"] for system in scenario.pv_systems}
        loads |= {load.to_dict()["profile_params"]["shape"] for load in scenario.tvl}
        assert len({repr(load.profile) for load in scenario.tvl}) == 1
        assert len({repr(system.profile) for system in scenario.pv_systems}) == 3
    assert pv == {"midday_dip"}
    assert loads == {"valley", "flat"}


@pytest.mark.parametrize("settings", [RandomizationSettings(), EVERYTHING], ids=["defaults", "everything"])
def test_power_factors_and_own_series_are_kept(village: Experiment, settings: RandomizationSettings) -> None:
    own = village.pv_systems[0].series
    assert own is not None
    plain_load = replace(village.loads[0], power_factor=0.8)
    experiment = replace(village, loads=(*village.loads, plain_load))
    for seed in range(20):
        scenario = randomize_scenario(seed, experiment=experiment, settings=settings)
        (system,) = scenario.pv_systems
        assert system.power_factor == 0.98
        assert [load.power_factor for load in scenario.tvl] == [0.9, 0.8]
        assert system.profile == SeriesProfile(own, scenario.params.pv_scale)
        moved = (np.array([0.0, 600.0]) - scenario.params.pv_t_shift_s) / scenario.params.pv_warp
        by_hand = np.interp(moved, own.time_s, own.kw_per_phase) * scenario.params.pv_scale
        assert system.kw_per_phase([0.0, 600.0]).tolist() == by_hand.tolist()
    assert isinstance(randomize_scenario(7, experiment=experiment).tvl[1].profile, AnalyticLoad)


@pytest.mark.parametrize("system", SYSTEMS)
def test_base_scenario_is_the_experiment_as_it_stands(system: str) -> None:
    experiment = load_experiment(system)
    scenario = base_scenario(experiment)
    assert scenario.sites == experiment.sites
    assert scenario.training_run == experiment.overlay
    assert [p.peak_kw_per_phase for p in scenario.pv_systems] == [p.peak_kw_per_phase for p in experiment.pv_systems]
    assert [p.profile for p in scenario.pv_systems] == [AnalyticPV(i) for i in range(len(experiment.pv_systems))]
    assert [p.profile for p in scenario.tvl] == [AnalyticLoad(i) for i in range(len(experiment.loads))]
    assert scenario == base_scenario(experiment)
