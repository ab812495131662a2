"""The grid: what is attached where, and that its voltages are openg2g's."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from openg2g.coordinator import Coordinator
from openg2g.grid.base import BusVoltages
from openg2g.grid.opendss import OpenDSSGrid, dss

from scenario_lib.errors import ScenarioLibError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import ENGINES, Engine, simulator
from scenario_lib.simulation.opendss.grid import ScenarioGrid, tan_phi
from scenario_lib.simulation.rollout import build_simulation

Edit = Callable[[str, str], Path]


@contextlib.contextmanager
def running(
    scenario: Scenario, experiment: Experiment, specs_dir: Path, n_steps: int = 40
) -> Iterator[tuple[ScenarioGrid, Iterator[object]]]:
    """A grid within its running simulation, and the simulation's ticks."""
    simulation = build_simulation(scenario, experiment, load_assets(experiment, specs_dir), "none", n_steps)
    coordinator = Coordinator(
        datacenters=list(simulation.datacenters.values()), grid=simulation.grid, total_duration_s=n_steps
    )
    ticks = coordinator.run_iter()
    try:
        yield simulation.grid, ticks
    finally:
        ticks.close()


def attached() -> dict[str, tuple[str, float, float, float, float, int]]:
    """Name to (bus, kV, kW, kvar, vminpu, model) of the elements that a scenario brought, as OpenDSS has them."""
    found = {}
    for load in dss.Loads:
        if load.Name().lower().startswith("scenario"):
            dss.Circuit.SetActiveElement(f"Load.{load.Name()}")
            found[load.Name().lower()] = (
                str(dss.CktElement.BusNames()[0]).lower(),
                float(load.kV()),
                float(load.kW()),
                float(load.kvar()),
                float(load.Vminpu()),
                int(load.Model()),
            )
    return found


def test_a_load_on_a_single_phase_lateral_sits_on_that_phase_only(village: Experiment, specs_dir: Path) -> None:
    scenario = randomize_scenario(7, experiment=village)
    system, load = scenario.pv_systems[0], scenario.tvl[0]
    with running(scenario, village, specs_dir) as (grid, ticks):
        for step, _ in enumerate(islice(ticks, 25)):
            elements = attached()
            assert set(elements) == {"scenariopv_0_a", "scenariopv_0_b", "scenariopv_0_c", "scenarioload_0_b"}
            bus, kv, kw, kvar, vmin_pu, model = elements["scenarioload_0_b"]
            assert (bus, vmin_pu, model) == ("lane.2", 0.85, 1)
            assert kv == pytest.approx(4.16 / math.sqrt(3), abs=1e-6)
            assert kw == pytest.approx(float(load.kw_per_phase(step)), rel=1e-12)
            assert kvar == pytest.approx(kw * math.tan(math.acos(0.9)), rel=1e-12)
            for phase, name in enumerate("abc", start=1):
                bus, kv, kw, kvar, vmin_pu, model = elements[f"scenariopv_0_{name}"]
                assert (bus, vmin_pu, model) == (f"school.{phase}", 0.85, 1)
                assert kw == pytest.approx(-float(system.kw_per_phase(step)), rel=1e-12)
                assert kvar == pytest.approx(kw * math.tan(math.acos(0.98)), rel=1e-12)
        assert {phase for bus, phase in grid.v_index if bus == "lane"} == {2}
        dss.Circuit.SetActiveBus("lane")
        assert list(dss.Bus.Nodes()) == [2]


def test_the_single_phase_load_of_ieee123(specs_dir: Path) -> None:
    experiment = load_experiment("ieee123")
    with running(randomize_scenario(7, experiment=experiment), experiment, specs_dir) as (grid, ticks):
        next(ticks)
        buses = {name: element[0] for name, element in attached().items()}
        assert [name for name in buses if name.startswith("scenarioload_2")] == ["scenarioload_2_a"]
        assert buses["scenarioload_2_a"] == "114.1"
        assert len(buses) == 3 * 3 + 2 * 3 + 1
        nodes = [str(name) for name in dss.Circuit.AllNodeNames()]
        assert grid._node_map == [(name.split(".")[0], int(name.split(".")[1])) for name in nodes]


def test_elements_start_at_nothing_and_change_no_voltage(village: Experiment, specs_dir: Path) -> None:
    """They are added after openg2g's start-up, which has solved once, and nothing solves before the first step."""
    simulation = build_simulation(
        randomize_scenario(7, experiment=village), village, load_assets(village, specs_dir), n_steps=1
    )
    bare = build_simulation(
        randomize_scenario(7, experiment=replace(village, pv_systems=(), loads=())),
        village,
        load_assets(village, specs_dir),
        n_steps=1,
    )
    bare.grid.start()
    before = dict(zip(bare.grid.v_index, bare.grid.voltages_vector().tolist(), strict=True))
    simulation.grid.start()
    after = dict(zip(simulation.grid.v_index, simulation.grid.voltages_vector().tolist(), strict=True))
    assert {element[2:4] for element in attached().values()} == {(0.0, 0.0)}
    assert after == before


def test_measures_leave_excluded_buses_out(village: Experiment, specs_dir: Path) -> None:
    scenario = randomize_scenario(7, experiment=village)
    some = replace(village, feeder=replace(village.feeder, exclude_buses=("Source", "QUAY", "farm")))
    with running(scenario, some, specs_dir) as (grid, ticks):
        next(ticks)
        assert {bus for bus, _ in grid.v_index} == {"square", "mill", "harbour", "school", "lane"}
        assert len(grid.recorded_voltages()) == 4 * 3 + 1


@pytest.mark.parametrize("system", ["ieee13", "ieee123"])
def test_snapshots_are_openg2gs_made_late(system: str, specs_dir: Path) -> None:
    experiment = load_experiment(system)
    with running(randomize_scenario(7, experiment=experiment), experiment, specs_dir) as (grid, ticks):
        kept, buses = [], []
        for _ in islice(ticks, 15):
            kept.append((grid.state.voltages, OpenDSSGrid._snapshot_bus_voltages(grid)))
            # Nobody has asked for the dictionary yet, but the vector is that of the plain class.
            assert "_data" not in vars(kept[-1][0])
            assert np.array_equal(grid.recorded_voltages(), OpenDSSGrid.voltages_vector(grid))
            buses = list(grid.all_buses)
        for lazy, plain in kept:
            assert isinstance(lazy, BusVoltages)
            assert lazy.buses() == plain.buses() == buses
            assert buses[0] in lazy
            assert "nowhere" not in lazy
            found = np.array([[lazy[bus].a, lazy[bus].b, lazy[bus].c] for bus in buses])
            wanted = np.array([[plain[bus].a, plain[bus].b, plain[bus].c] for bus in buses])
            np.testing.assert_array_equal(found, wanted)
            assert np.isnan(found).any()
        assert not np.array_equal(kept[0][0].magnitudes, kept[-1][0].magnitudes)


def test_recorded_voltages_are_those_before_an_estimate(village: Experiment, specs_dir: Path) -> None:
    """An estimate solves again and ends a little elsewhere; measures must not see that."""
    with running(randomize_scenario(7, experiment=village), village, specs_dir) as (grid, ticks):
        for _ in islice(ticks, 3):
            before = grid.recorded_voltages().tolist()
            sensitivity, baseline = grid.estimate_sensitivity(20.0)
            assert grid.recorded_voltages().tolist() == before
            assert sensitivity.shape == (len(grid.v_index), 3)
            assert np.abs(baseline - before).max() < 1e-3
        # A load of its own phase pulls that phase down, at the far end of the line the most.
        column = dict(zip(grid.v_index, sensitivity.tolist(), strict=True))
        for phase in (1, 2, 3):
            assert column["harbour", phase][phase - 1] < column["mill", phase][phase - 1] < 0


def test_taps_and_source_are_the_experiments(village: Experiment, specs_dir: Path) -> None:
    scenario = randomize_scenario(7, experiment=village)
    voltages = {}
    for tap in (1.0, 1.05):
        taps = replace(village, feeder=replace(village.feeder, initial_taps_pu={"REG1": tap}))
        with running(scenario, taps, specs_dir) as (grid, ticks):
            next(ticks)
            assert grid.state.tap_positions.regulators == {"reg1": tap}
            dss.Vsources.First()
            assert dss.Vsources.PU() == 1.005
            voltages[tap] = dict(zip(grid.v_index, grid.recorded_voltages(), strict=True))
    for pair in (("mill", 1), ("lane", 2)):
        assert voltages[1.05][pair] - voltages[1.0][pair] == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    ("power_factor", "expected"), [(1.0, 0.0014142), (0.9999999, 0.0014142), (0.96, 0.2916667), (0.8, 0.75)]
)
def test_tan_phi_is_clamped_as_openg2g_does(power_factor: float, expected: float) -> None:
    assert tan_phi(power_factor) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("connection_type", ["wye", "delta"])
def test_a_site_draws_what_it_states_however_it_is_connected(
    village: Experiment, specs_dir: Path, connection_type: str
) -> None:
    """By OpenDSS's own account, PV systems and loads too, in both engines' circuits."""
    sites = tuple(replace(site, connection_type=connection_type) for site in village.sites)
    experiment = replace(village, sites=sites)
    scenario = randomize_scenario(7, experiment=experiment)
    with running(scenario, experiment, specs_dir) as (grid, ticks):
        for step, _ in enumerate(islice(ticks, 5)):
            (datacenter,) = grid._dc_attachments
            stated = {f"datacenter{phase}": getattr(datacenter.state.power_w, phase) / 1e3 for phase in "abc"}
            stated |= {f"scenariopv_0_{phase}": -float(scenario.pv_systems[0].kw_per_phase(step)) for phase in "abc"}
            stated["scenarioload_0_b"] = float(scenario.tvl[0].kw_per_phase(step))
            drawn = {name: drawn_kw(name) for name in stated}
            assert drawn == pytest.approx(stated, rel=2e-3)
        dss.Circuit.SetActiveElement("Load.datacenterc")
        wired = {"wye": "harbour.3", "delta": "harbour.3.1"}
        assert str(dss.CktElement.BusNames()[0]).lower() == wired[connection_type]


def drawn_kw(load: str) -> float:
    dss.Circuit.SetActiveElement(f"Load.{load}")
    return float(sum(dss.CktElement.Powers()[0::2]))


@pytest.mark.parametrize("connection_type", ["wye", "delta"])
def test_the_compiled_engine_draws_the_same(village: Experiment, specs_dir: Path, connection_type: str) -> None:
    sites = tuple(replace(site, connection_type=connection_type) for site in village.sites)
    experiment = replace(village, sites=sites)
    scenario, assets = randomize_scenario(7, experiment=experiment), load_assets(experiment, specs_dir)
    reference, compiled = (
        simulator(scenario, experiment, assets, Engine(name)).run("none").rollout for name in ENGINES
    )
    np.testing.assert_allclose(compiled.voltages_pu, reference.voltages_pu, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["pv_systems", "loads"])
def test_pv_systems_and_loads_have_no_connection_to_choose(edited_village: Edit, kind: str) -> None:
    """They stand on the phases that their bus has, which may be one, so they are always in wye."""
    path = edited_village(f"[[{kind}]]", f'[[{kind}]]\nconnection_type = "delta"')
    with pytest.raises(ScenarioLibError, match="connection_type"):
        load_experiment(path)
