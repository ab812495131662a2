"""Rollouts: their parts, and that nothing but scenario, experiment and policy matters."""

import contextlib
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import rollout_digest
from openg2g.coordinator import Coordinator
from openg2g.grid.config import TapPosition
from openg2g.grid.opendss import OpenDSSGrid

from scenario_lib.errors import UnknownNameError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.feeders.sites import Ramp
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario, randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range
from scenario_lib.simulation.assets import Assets, load_assets
from scenario_lib.simulation.opendss.datacenters import build_controllers, build_datacenters
from scenario_lib.simulation.rollout import Rollout, run_reference


def assert_same(found: Rollout, expected: Rollout) -> None:
    """Bit for bit."""
    assert found.bus_phases == expected.bus_phases
    assert found.model_labels == expected.model_labels
    for name in ("voltages_pu", "power_w", "batch_sizes", "active_replicas", "itl_s"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.fixture(scope="module")
def assets(village: Experiment, specs_dir: Path) -> Assets:
    return load_assets(village, specs_dir)


@pytest.fixture(scope="module")
def early(village: Experiment) -> Scenario:
    """A scenario of the village with ramps and overlay in its first minutes, and voltages that OFO acts on."""
    base = replace(village.sites[0].models[0], ramps=(Ramp(120, 20.0, 90.0),))
    site = replace(village.sites[0], seed=11, models=(base, *village.sites[0].models[1:]))
    overlay = village.overlay and replace(village.overlay, t_start_s=50.0, t_end_s=300.0)
    return base_scenario(replace(village, sites=(site,), overlay=overlay))


@pytest.mark.parametrize("policy", ["none", "ofo", "rule-based"])
def test_a_shorter_rollout_is_the_beginning_of_a_longer_one(
    early: Scenario, village: Experiment, assets: Assets, policy: str
) -> None:
    short = run_reference(early, village, assets, policy, n_steps=40)
    long = run_reference(early, village, assets, policy, n_steps=100)
    assert short.voltages_pu.shape == (40, len(short.bus_phases))
    for name in ("voltages_pu", "power_w", "batch_sizes", "active_replicas", "itl_s"):
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name)[:40], err_msg=name)


def test_parts_of_a_rollout(early: Scenario, village: Experiment, assets: Assets) -> None:
    rollout = run_reference(early, village, assets, n_steps=120)
    assert rollout.policy == "none"
    assert rollout.site_names == ("hall",)
    assert rollout.model_labels == (("hall", "Llama-3.1-8B"), ("hall", "Qwen3-30B-A3B"))
    # Five three-phase buses are counted, a two-phase and a single-phase one; the source bus is excluded.
    assert len(rollout.bus_phases) == 5 * 3 + 2 + 1
    assert {bus for bus, _ in rollout.bus_phases} == {"square", "mill", "harbour", "quay", "school", "farm", "lane"}
    assert {phase for bus, phase in rollout.bus_phases if bus == "lane"} == {2}
    assert {phase for bus, phase in rollout.bus_phases if bus == "farm"} == {1, 3}
    assert rollout.power_w.shape == (120, 1, 3)
    assert (rollout.batch_sizes == 128).all()
    assert rollout.active_replicas[0].tolist() == [240, 120]
    assert rollout.active_replicas[-1, 0] == 120
    assert (np.diff(rollout.active_replicas[:, 0]) <= 0).all()
    assert np.isfinite(rollout.itl_s).all()
    assert ((rollout.itl_s > 0.001) & (rollout.itl_s < 0.2)).all()
    # Facility, and GPUs at some 460 to 670 W.
    assert rollout.power_w[0].sum() == pytest.approx(3 * 45e3 + 240 * 664 + 240 * 463, rel=0.05)


def test_without_control_batches_stay_and_with_it_they_move(
    early: Scenario, village: Experiment, assets: Assets
) -> None:
    for policy, moves in (("none", False), ("ofo", True), ("rule-based", True)):
        low = replace(village, feeder=replace(village.feeder, source_pu=0.98))
        batches = run_reference(early, low, assets, policy, n_steps=60).batch_sizes
        assert (batches[0] == 128).all()
        assert bool((batches[-1] < 128).any()) is moves
        assert set(np.unique(batches)) <= {8, 16, 32, 64, 128, 256, 512}


def test_an_unknown_policy_is_refused(early: Scenario, village: Experiment, assets: Assets) -> None:
    with pytest.raises(UnknownNameError, match="policy 'off' is not known; expected one of none, ofo, rule-based"):
        run_reference(early, village, assets, "off", n_steps=5)


def test_a_ramp_beyond_the_gpus_is_refused(early: Scenario, village: Experiment, assets: Assets) -> None:
    model = replace(early.sites[0].models[0], ramps=(Ramp(500, 20.0, 90.0),))
    site = replace(early.sites[0], models=(model, *early.sites[0].models[1:]))
    with pytest.raises(ValueError, match="capacity is 640"):
        run_reference(replace(early, sites=(site,)), village, assets, n_steps=5)


def test_alone_equals_after_others(village_file: Path, specs_dir: Path) -> None:
    """OpenDSS is one engine a process, and clearing it may keep options; every feeder here has options of its own."""
    wanted = [(name, str(specs_dir), 7, "ofo", 330) for name in ("ieee34", str(village_file))]
    alone = []
    for arguments in wanted:
        command = [sys.executable, rollout_digest.__file__, json.dumps(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        alone.append(done.stdout.strip())
    for system in ("ieee13", "ieee123", "ieee34", str(village_file), "ieee13"):
        rollout_digest.digest(system, str(specs_dir), 1007, "ofo", 20)
    assert [rollout_digest.digest(*arguments) for arguments in wanted] == alone
    assert [rollout_digest.digest(*arguments) for arguments in reversed(wanted)] == alone[::-1]
    assert len(set(alone)) == 2


def test_after_a_diverged_power_flow_all_is_as_before(early: Scenario, village: Experiment, assets: Assets) -> None:
    before = run_reference(early, village, assets, n_steps=20)
    hopeless = replace(village, feeder=replace(village.feeder))
    object.__setattr__(hopeless.feeder, "source_pu", 1e200)  # which a feeder refuses to be told
    with pytest.raises(ArithmeticError):
        run_reference(early, hopeless, assets, n_steps=20)
    assert_same(run_reference(early, village, assets, n_steps=20), before)


def test_where_the_process_stands_does_not_matter(
    early: Scenario, village: Experiment, assets: Assets, tmp_path: Path
) -> None:
    here = run_reference(early, village, assets, n_steps=5)
    with contextlib.chdir(tmp_path):
        assert_same(run_reference(early, village, assets, n_steps=5), here)
        assert Path.cwd() == tmp_path
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("policy", ["none", "ofo"])
@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_without_pv_and_loads_it_is_plain_openg2g(system: str, policy: str, specs_dir: Path) -> None:
    experiment = load_experiment(system)
    low = replace(experiment.feeder, source_pu=experiment.feeder.source_pu - 0.04)  # so that OFO has work
    experiment = replace(experiment, feeder=low, pv_systems=(), loads=())
    settings = RandomizationSettings(ramp_start=Range(5, 10), ramp_dur=Range(20, 30))
    scenario = randomize_scenario(7, experiment=experiment, settings=settings)
    site_assets = load_assets(experiment, specs_dir)
    n_steps = 40
    found = run_reference(scenario, experiment, site_assets, policy, n_steps)

    circuit, feeder = Path(experiment.feeder.circuit), experiment.feeder
    datacenters = build_datacenters(scenario, experiment, site_assets)
    grid = OpenDSSGrid(
        dss_case_dir=circuit.parent,
        dss_master_file=circuit.name,
        source_pu=feeder.source_pu,
        initial_tap_position=TapPosition(regulators=feeder.initial_taps_pu),
        exclude_buses=feeder.exclude_buses,
    )
    for site in scenario.sites:
        grid.attach_dc(datacenters[site.name], bus=site.bus)
    controllers = build_controllers(policy, scenario.sites, datacenters, grid, experiment, site_assets)  # type: ignore[arg-type]
    with contextlib.chdir(Path.cwd()):
        log = Coordinator(
            datacenters=list(datacenters.values()), grid=grid, controllers=controllers, total_duration_s=n_steps
        ).run()
    assert found.bus_phases == tuple(grid.v_index)
    for step, state in enumerate(log.grid_states):
        voltages = [getattr(state.voltages[bus], "abc"[phase - 1]) for bus, phase in grid.v_index]
        assert found.voltages_pu[step].tolist() == voltages
    for position, name in enumerate(found.site_names):
        power = [[s.power_w.a, s.power_w.b, s.power_w.c] for s in log.dc_states_by_site[name]]
        assert found.power_w[:, position].tolist() == power
    assert len(log.grid_states) == n_steps
    if policy == "ofo":
        assert len(np.unique(found.batch_sizes, axis=0)) > 1


def test_rollouts_are_plain_values(early: Scenario, village: Experiment, assets: Assets) -> None:
    fields = asdict(run_reference(early, village, assets, n_steps=2))
    assert {type(bus) for bus, _ in fields["bus_phases"]} == {str}
    assert {type(phase) for _, phase in fields["bus_phases"]} == {int}
    assert fields["batch_sizes"].dtype == fields["active_replicas"].dtype == np.int64
    assert fields["voltages_pu"].dtype == fields["power_w"].dtype == np.float64
