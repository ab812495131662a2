"""The resolved form and its digest: equal everywhere, and enough to make the scenario again."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import Scenario, resolve, scenario_digest, scenario_from_resolved
from scenario_lib.scenario.randomize import base_scenario, randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range

DATA = Path(__file__).parents[1] / "data"
DIGESTS: dict[str, str] = json.loads((DATA / "scenario_digests.json").read_text(encoding="utf-8"))
CASES: dict[str, Any] = json.loads((DATA / "scenarios.json").read_text(encoding="utf-8"))
EVERYTHING = RandomizationSettings.from_openg2g(CASES["ieee13/everything"]["settings"])


def golden_scenario(key: str) -> Scenario:
    """A scenario made from golden numbers, no draw involved; order of sites and power factors as in the experiment."""
    case, seed = key.rsplit("/", 1)
    experiment = load_experiment(CASES[case]["system"])
    (flat,) = (scenario for scenario in CASES[case]["scenarios"] if str(scenario["seed"]) == seed)
    rest = {
        "site_order": [site.name for site in experiment.sites],
        "pv_power_factors": [system.power_factor for system in experiment.pv_systems],
        "tvl_power_factors": [load.power_factor for load in experiment.loads],
    }
    return scenario_from_resolved({**flat, **rest})


@pytest.mark.parametrize("key", DIGESTS)
def test_golden_numbers_have_the_golden_digest(key: str) -> None:
    assert scenario_digest(golden_scenario(key)) == DIGESTS[key]


def test_drawn_scenarios_have_the_golden_digest() -> None:
    settings = RandomizationSettings(ramp_down_frac=Range(0.5, 0.85))
    counted = 0
    for key, digest in DIGESTS.items():
        case, seed = key.rsplit("/", 1)
        if case == "ieee13/build_default":
            drawn = randomize_scenario(int(seed), experiment=load_experiment("ieee13"), settings=settings)
            assert scenario_digest(drawn) == digest
            counted += 1
    assert counted > 0


def test_digest_is_the_hash_of_sorted_json() -> None:
    scenario = randomize_scenario(7, experiment=load_experiment("ieee34"), settings=EVERYTHING)
    text = json.dumps(resolve(scenario), sort_keys=True, separators=(",", ":"))
    assert scenario_digest(scenario) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
@pytest.mark.parametrize("broad", [True, False])
def test_resolved_form_makes_the_scenario_again(system: str, broad: bool) -> None:
    experiment = load_experiment(system)
    experiment = replace(experiment, overlay=experiment.overlay or TrainingJob(300, 400.0, 1000.0, 2000.0))
    for settings in (RandomizationSettings(), EVERYTHING):
        for seed in range(40):
            drawn = randomize_scenario(
                seed, experiment=experiment, settings=replace(settings, randomization_profile=broad)
            )
            stored = json.loads(json.dumps(resolve(drawn), sort_keys=True))
            assert scenario_from_resolved(stored) == drawn
            assert scenario_digest(scenario_from_resolved(stored)) == scenario_digest(drawn)


def test_resolved_form_keeps_series_and_power_factors(village: Experiment) -> None:
    for drawn in (base_scenario(village), randomize_scenario(3, experiment=village, settings=EVERYTHING)):
        again = scenario_from_resolved(json.loads(json.dumps(resolve(drawn))))
        assert again == drawn
        assert again.pv_systems[0].profile.kind == "series"
        assert again.pv_systems[0].power_factor == 0.98
        assert again.pv_systems[0].kw_per_phase([0.0, 777.0]).tolist() == (
            drawn.pv_systems[0].kw_per_phase([0.0, 777.0]).tolist()
        )


def changed(scenario: Scenario) -> dict[str, Scenario]:
    (site, *others), (system, *systems) = scenario.sites, scenario.pv_systems
    model = site.models[0]
    ramp = replace(model.ramps[0], t_end_s=model.ramps[0].t_end_s + 1e-9)
    return {
        "seed": replace(scenario, seed=scenario.seed + 1),
        "site seed": replace(scenario, sites=(replace(site, seed=site.seed + 1), *others)),
        "ramp": replace(
            scenario, sites=(replace(site, models=(replace(model, ramps=(ramp,)), *site.models[1:])), *others)
        ),
        "peak": replace(scenario, pv_systems=(replace(system, peak_kw_per_phase=1.0), *systems)),
        "power factor": replace(scenario, pv_systems=(replace(system, power_factor=0.9), *systems)),
        "parameter": replace(scenario, params=replace(scenario.params, pv_scale=1.0)),
        "overlay": replace(scenario, params=replace(scenario.params, training_overlay=None)),
    }


def test_the_order_of_sites_counts() -> None:
    """The training job runs at the first site."""
    scenario = randomize_scenario(7, experiment=load_experiment("ieee34"))
    turned = replace(scenario, sites=scenario.sites[::-1])
    assert scenario_digest(turned) != scenario_digest(scenario)
    assert scenario_from_resolved(json.loads(json.dumps(resolve(turned), sort_keys=True))) == turned


def test_every_number_counts() -> None:
    scenario = randomize_scenario(7, experiment=load_experiment("ieee13"))
    digests = {what: scenario_digest(other) for what, other in changed(scenario).items()}
    assert len({scenario_digest(scenario), *digests.values()}) == 1 + len(digests)


def test_minus_zero_is_zero() -> None:
    scenario = randomize_scenario(7, experiment=load_experiment("ieee13"))
    minus = replace(scenario, params=replace(scenario.params, pv_t_shift_s=-0.0))
    assert scenario.params.pv_t_shift_s == 0.0
    assert scenario_digest(minus) == scenario_digest(scenario)


_PRINT_DIGESTS = """
import sys
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
for system in sys.argv[1:]:
    for seed in (7, 1007):
        print(scenario_digest(randomize_scenario(seed, experiment=load_experiment(system))))
print([name for name in sys.modules if name.startswith(("opendssdirect", "openg2g", "pandas"))])
"""


def test_digests_are_the_same_in_other_processes_and_draw_without_a_simulator() -> None:
    systems = ("ieee13", "ieee34", "ieee123")
    here = [
        scenario_digest(randomize_scenario(seed, experiment=load_experiment(system)))
        for system in systems
        for seed in (7, 1007)
    ]
    for hash_seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", _PRINT_DIGESTS, *systems],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        *digests, modules = done.stdout.splitlines()
        assert digests == here
        assert modules == "[]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bus", "680 kv=1"),
        ("bus", "680\nclear"),
        ("bus", "680.1"),
        ("bus", 680),
        ("bus_kv", 0.0),
        ("bus_kv", 1e300),
        ("peak_kw", -1.0),
        ("peak_kw", 1e300),
        ("time_warp", 0.0),
        ("peak_t_shift_s", float("nan")),
    ],
)
@pytest.mark.parametrize("kind", ["pv_systems", "tvl"])
def test_stored_elements_are_held_to_what_can_be_drawn(kind: str, name: str, value: object) -> None:
    stored = json.loads(json.dumps(resolve(base_scenario(load_experiment("ieee13")))))
    stored[kind][0][name] = value
    with pytest.raises(InvalidSettingError, match="expected"):
        scenario_from_resolved(stored)
