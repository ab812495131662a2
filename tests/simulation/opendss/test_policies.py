"""Policies: who controls, with which tuning."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from openg2g.controller.ofo import OFOBatchSizeController
from openg2g.controller.rule_based import RuleBasedBatchSizeController

from scenario_lib.errors import UnknownNameError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.criteria import as_screened
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.opendss.datacenters import POLICIES, as_policy
from scenario_lib.simulation.rollout import Simulation, build_simulation


def simulation(system: str, policy: str, specs_dir: Path) -> Simulation:
    experiment = load_experiment(system)
    scenario = randomize_scenario(7, experiment=experiment)
    return build_simulation(scenario, experiment, load_assets(experiment, specs_dir), policy, n_steps=1)


def test_names() -> None:
    controllers = ("always-smallest", "always-largest", "deadband")
    assert ("none", "ofo", "rule-based", "rule-based-zonal", *controllers) == POLICIES


@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_screening_sets_two_figures_for_itself(system: str) -> None:
    experiment = load_experiment(system)
    tuning = as_screened(experiment).ofo
    assert (tuning.sensitivity_update_interval, tuning.w_throughput) == (300, 1e-4)
    assert tuning == replace(experiment.ofo, sensitivity_update_interval=300, w_throughput=1e-4)


@pytest.mark.parametrize("system", ["ieee13", "ieee123"])
def test_one_controller_a_site(system: str, specs_dir: Path) -> None:
    assert simulation(system, "none", specs_dir).controllers == []
    kinds = {
        "ofo": OFOBatchSizeController,
        "rule-based": RuleBasedBatchSizeController,
        "rule-based-zonal": RuleBasedBatchSizeController,
    }
    for policy, kind in kinds.items():
        built = simulation(system, policy, specs_dir)
        assert [type(controller) for controller in built.controllers] == [kind] * len(built.datacenters)
        assert [controller._datacenter for controller in built.controllers] == list(built.datacenters.values())


TUNINGS = [{"w_throughput": 3e-5}, {"sensitivity_update_interval": 60}, {"w_switch": 0.5}, {"primal_step_size": 0.1}]


@pytest.mark.parametrize("changed", TUNINGS)
def test_ofo_starts_from_the_drawn_batches_with_the_experiments_tuning(changed: dict, specs_dir: Path) -> None:
    shipped = load_experiment("ieee34")
    experiment = replace(shipped, ofo=replace(shipped.ofo, **changed))
    scenario = randomize_scenario(7, experiment=experiment)
    built = build_simulation(scenario, experiment, load_assets(experiment, specs_dir), "ofo", n_steps=1)
    for controller, site in zip(built.controllers, scenario.sites, strict=True):
        assert controller._config.model_dump() == asdict(experiment.ofo)
        assert controller._initial_batch_sizes == {m.label: m.initial_batch_size for m in site.models}


@pytest.mark.parametrize(("policy", "zonal"), [("rule-based", False), ("rule-based-zonal", True)])
def test_the_rule_looks_at_the_whole_feeder_or_at_its_zone(policy: str, zonal: bool, specs_dir: Path) -> None:
    experiment = load_experiment("ieee123")
    zones = [{bus.lower() for bus in experiment.feeder.zones[site.name]} for site in experiment.sites]
    looked_at = [controller._zone_lower for controller in simulation("ieee123", policy, specs_dir).controllers]
    assert looked_at == (zones if zonal else [None] * len(zones))


@pytest.mark.parametrize("policy", ["", "OFO", "rule_based", "baseline"])
def test_unknown_policies_are_refused(policy: str) -> None:
    with pytest.raises(
        UnknownNameError, match=f"policy '{policy}' is not known; expected one of none, ofo, rule-based"
    ):
        as_policy(policy)
