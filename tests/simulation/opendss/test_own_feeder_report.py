"""A user's feeder, looked at before an experiment exists: what is found, what it hosts, what does not fit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from openg2g.grid.opendss import dss

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError, InvalidSettingError, MissingDataError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import run_rollout
from scenario_lib.simulation.opendss.check import FeederReport, check_feeder, check_own_feeder
from scenario_lib.simulation.opendss.grid import tan_phi
from scenario_lib.simulation.opendss.hosting import (
    BaseCase,
    Hosting,
    base_case_of,
    counted_nodes,
    hosting_capacities,
    started,
    survey,
)

Edit = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def report(village_file: Path) -> FeederReport:
    return check_own_feeder(village_file, 700.0)


def test_what_the_circuit_is_made_of(report: FeederReport) -> None:
    found = report.found
    assert (found.buses, found.kv_levels) == ({3: 6, 2: 1, 1: 1}, {12.47: 1, 4.16: 7})
    assert (found.loads, found.load_kw, found.load_kvar) == (5, 275.0, 93.0)
    assert (found.lines, found.transformers, found.capacitors) == (5, 2, 0)
    assert found.regulator_taps_pu == {"reg1": 1.01875}
    assert (found.lowest.node, round(found.lowest.voltage_pu, 4)) == ("farm.1", 1.0007)
    assert (found.highest.node, round(found.highest.voltage_pu, 4)) == ("mill.3", 1.0214)
    assert report.faults == ()
    assert report.not_modelled == ()


def test_the_survey_agrees_with_a_rollout_that_draws_nothing(village_file: Path) -> None:
    """The same start as the engine's: a site without replicas or facility power leaves the voltages of the survey."""
    from scenario_lib.scenario.randomize import base_scenario
    from scenario_lib.simulation.assets import load_assets
    from scenario_lib.simulation.rollout import run_reference

    village = load_experiment(village_file)
    (site,) = village.sites
    idle = replace(site, base_kw_per_phase=0.0, models=tuple(replace(m, replicas=0) for m in site.models))
    still = replace(village, sites=(idle,), pv_systems=(), loads=(), overlay=None)
    played = run_reference(base_scenario(still), still, load_assets(still), n_steps=1)
    with started(base_case_of(village)):
        nodes = counted_nodes(village.feeder.exclude_buses)
        ours = dict(zip(nodes.names, nodes.voltages_pu(), strict=True))
    theirs = {f"{bus}.{phase}": v for (bus, phase), v in zip(played.bus_phases, played.voltages_pu[0], strict=True)}
    assert ours.keys() == theirs.keys()
    assert np.allclose([ours[name] for name in theirs], list(theirs.values()), rtol=0, atol=1e-4)


BANK = """New Capacitor.bank bus1=mill kv=4.16 numsteps=2 kvar=[150 250]
New Capacitor.fixed bus1=quay kv=4.16 kvar=30
New CapControl.switch element=Line.mill_school terminal=1 capacitor=bank type=kvar ONsetting=5000 OFFsetting=4000
"""


@pytest.fixture
def banked(edited_village: Edit) -> Experiment:
    """The village with two capacitors, one of which its control opens; the experiment says nothing of them."""
    return load_experiment(edited_village("Set VoltageBases", f"{BANK}Set VoltageBases"))


def still_voltages(experiment: Experiment, engine: str) -> dict[str, float]:
    """Voltages of second 0 under a site that draws nothing."""
    (site,) = experiment.sites
    idle = replace(site, base_kw_per_phase=0.0, models=tuple(replace(m, replicas=0) for m in site.models))
    still = replace(experiment, sites=(idle,), pv_systems=(), loads=(), overlay=None)
    played = run_rollout(base_scenario(still), still, load_assets(still), "none", n_steps=1, engine=engine)
    return {f"{bus}.{phase}": v for (bus, phase), v in zip(played.bus_phases, played.voltages_pu[0], strict=True)}


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_a_rollout_starts_where_the_check_stood(banked: Experiment, engine: str) -> None:
    settled = BaseCase(Path(banked.feeder.circuit))
    with started(settled):
        found = survey(counted_nodes(()))
        nodes = counted_nodes(banked.feeder.exclude_buses)
        stood = dict(zip(nodes.names, nodes.voltages_pu().tolist(), strict=True))
    assert found.capacitor_steps == {"bank": (0, 0)}
    as_found = {"initial_taps_pu": found.regulator_taps_pu, "source_pu": found.source_pu}
    closed = replace(banked, feeder=replace(banked.feeder, **as_found))
    kept = replace(closed, feeder=replace(closed.feeder, initial_capacitor_steps=found.capacitor_steps))
    started_at = still_voltages(kept, engine)
    assert started_at.keys() == stood.keys()
    assert np.allclose([started_at[name] for name in stood], list(stood.values()), rtol=0, atol=2e-5)
    assert still_voltages(closed, engine)["mill.1"] > stood["mill.1"] + 1e-3
    half = replace(closed, feeder=replace(closed.feeder, initial_capacitor_steps={"BANK": (1, 0)}))
    assert (
        stood["mill.1"] + 3e-4
        < still_voltages(half, engine)["mill.1"]
        < still_voltages(closed, engine)["mill.1"] - 3e-4
    )


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"bnak": (1, 1)}, "no capacitor 'bnak' .it has bank, fixed"),
        ({"bank": (1,)}, "capacitor 'bank' has 2 steps, initial_capacitor_steps 1"),
    ],
)
def test_capacitors_that_do_not_fit_are_named(
    banked: Experiment, steps: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(DataFileError, match=message):
        check_feeder(replace(banked, feeder=replace(banked.feeder, initial_capacitor_steps=steps)))


@pytest.mark.parametrize("steps", [(), (2,), (-1,)])
def test_steps_are_open_or_closed(banked: Experiment, steps: tuple[int, ...]) -> None:
    with pytest.raises(InvalidSettingError, match="initial_capacitor_steps of bank is .*expected 0 or 1 for each step"):
        replace(banked.feeder, initial_capacitor_steps={"bank": steps})


def test_a_capacity_is_the_last_kilowatt_that_keeps_the_limit(village_file: Path, report: FeederReport) -> None:
    """Checked with loads of our own in a circuit started afresh."""
    standing = base_case_of(load_experiment(village_file))
    hosts = {host.bus: host for host in report.hosting}
    assert list(hosts) == ["square", "mill", "harbour", "quay", "school"]
    for bus in ("harbour", "quay", "school"):
        at, above = (lowest_with_load(standing, bus, hosts[bus].kw_per_phase + more) for more in (0, 1))
        assert at[1] >= 0.95 > above[1]
        assert above[0] == hosts[bus].limited_by


def lowest_with_load(standing: BaseCase, bus: str, kw: int) -> tuple[str, float]:
    with started(standing):
        for phase in (1, 2, 3):
            dss.Text.Command(
                f"New Load.own_{phase} bus1={bus}.{phase} phases=1 kV={4.16 / 3**0.5} kW={kw} "
                f"kvar={kw * tan_phi(0.95)} model=1"
            )
        dss.Solution.SolveNoControl()
        lowest = survey(counted_nodes(standing.exclude_buses)).lowest
    return lowest.node, lowest.voltage_pu


def test_a_stricter_limit_leaves_less_and_a_broken_one_nothing(village_file: Path) -> None:
    standing = base_case_of(load_experiment(village_file))
    capacities = [
        capacity_at(replace(standing, limits=replace(standing.limits, v_min_pu=v))) for v in (0.9, 0.95, 0.98)
    ]
    assert all(a > b > c > 0 for a, b, c in zip(*capacities, strict=True))
    with started(standing):
        nodes = counted_nodes(standing.exclude_buses)
        strict = replace(standing, limits=replace(standing.limits, v_min_pu=1.01))
        hosts = list(hosting_capacities(strict, nodes))
    assert {(host.kw_per_phase, host.limited_by) for host in hosts} == {(0, "farm.1")}


def capacity_at(standing: BaseCase) -> list[int]:
    with started(standing):
        return [host.kw_per_phase for host in hosting_capacities(standing, counted_nodes(standing.exclude_buses))]


WEAK = """Clear
New Circuit.weak basekv=4.16 bus1=a
New Line.l bus1=a bus2=b length=5 units=km r1=0.3 x1=0.6 r0=0.5 x0=1
New Load.l bus1=b kv=4.16 kw=KW kvar=0 model=1 vminpu=0.01 vlowpu=0
Set VoltageBases=[4.16]
CalcVoltageBases
"""


def test_where_the_power_flow_breaks_down_first_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "weak.dss").write_text(WEAK.replace("KW", "900"))
    standing = BaseCase(tmp_path / "weak.dss")
    deep = replace(standing, limits=replace(standing.limits, v_min_pu=0.02))
    with started(deep):
        (at_source, at_end) = hosting_capacities(deep, counted_nodes(()))
    assert at_end.limited_by == "no solution"
    assert 100 < at_end.kw_per_phase < at_source.kw_per_phase


def test_the_order_of_buses_does_not_matter(report: FeederReport, village_file: Path) -> None:
    """A bus examined alone, after a restart, has the capacity that it has among the others."""
    standing = base_case_of(load_experiment(village_file))
    others = ("source", "square", "mill", "harbour", "school")
    with started(standing):
        nodes = counted_nodes(standing.exclude_buses)
        (alone,) = hosting_capacities(replace(standing, exclude_buses=others), nodes)
    assert alone == {host.bus: host for host in report.hosting}["quay"]


def test_a_site_is_set_beside_its_bus(report: FeederReport) -> None:
    (demand,) = report.sites
    watts = {8: 240 * 484.502 + 120 * 2 * 355.076, 512: 240 * 688.254 + 120 * 2 * 490.907}
    assert demand.least_kw_per_phase == pytest.approx(45 + watts[8] / 3e3)
    assert demand.most_kw_per_phase == pytest.approx(45 + watts[512] / 3e3)
    assert (demand.site, demand.bus, demand.hosting_kw_per_phase) == ("hall", "harbour", 149)


def test_capacities_as_gpus(report: FeederReport) -> None:
    assert report.gpus(Hosting("b", 4.16, 70, "b.1")) == 300


def test_what_does_not_fit_is_listed_beside_what_was_found(edited_village: Edit) -> None:
    edited_village('bus = "harbour"', 'bus = "harbor"')
    report = check_own_feeder(edited_village("reg1 = ", "reg9 = "), 700.0)
    assert [fault.split(" (")[0] for fault in report.faults] == [
        "no regulator control 'reg9'",
        "site hall: no bus 'harbor'",
    ]
    assert len(report.hosting) == 5
    assert report.sites[0].hosting_kw_per_phase is None


def test_a_bare_circuit_settles_its_regulators(village_file: Path) -> None:
    report = check_own_feeder(village_file.with_name("village.dss"), 700.0)
    assert report.settled_taps
    assert report.found.regulator_taps_pu == {"reg1": 1.0}
    assert (report.limits_pu, report.sites, report.faults) == ((0.95, 1.05), (), ())
    with_taps = check_own_feeder(data_dir() / "feeders" / "ieee13" / "ieee13.dss", 700.0).found
    assert all(1.0 < tap < 1.1 for tap in with_taps.regulator_taps_pu.values())
    assert 0.95 < with_taps.lowest.voltage_pu < with_taps.highest.voltage_pu < 1.05


def test_what_the_compiled_engine_lacks_is_named(edited_village: Edit) -> None:
    path = edited_village("New Load.lane ", "New Storage.box bus1=school kwrated=10 kwhrated=10\nNew Load.lane ")
    report = check_own_feeder(path, 700.0)
    assert "elements of class storage (Storage.box)" in report.not_modelled
    assert report.found.other_elements["storage"] == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "You must create a new circuit|there is no circuit"),
        ("New Circuit.x basekv=12.47 bus1=a\nNew Lin.e a b c\n", "OpenDSS cannot compile it"),
        ("Clear\nNew Circuit.x basekv=12.47 bus1=a\n", "no bus has a voltage base; end the circuit with"),
        ("# Not a circuit\n", "OpenDSS cannot compile it"),
    ],
)
def test_what_is_no_circuit_is_refused_by_name(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "x.dss").write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=rf"x\.dss: .*({fault})"):
        check_own_feeder(tmp_path / "x.dss", 700.0)


def test_a_missing_file_and_a_circuit_that_cannot_be_solved(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"x\.dss: no such file; give the path"):
        check_own_feeder(tmp_path / "x.dss", 700.0)
    (tmp_path / "weak.dss").write_text(WEAK.replace("KW", "90000"))
    with pytest.raises(DataFileError, match=r"weak\.dss: the power flow does not converge within its 15 iterations"):
        check_own_feeder(tmp_path / "weak.dss", 700.0)


def test_the_report_is_strict_json(report: FeederReport) -> None:
    facts = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert facts["hosting"][2]["bus"] == "harbour"
    assert facts["hosting"][2]["gpus"] == 638


def test_a_circuit_that_stops_unconverged_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "weak.dss").write_text(WEAK.replace("KW", "900") + "Set MaxIterations=2 Tolerance=1e-9\n")
    with pytest.raises(DataFileError, match="within its 2 iterations, while its controls settle; .*MaxIterations=100"):
        check_own_feeder(tmp_path / "weak.dss", 700.0)


def test_options_of_the_file_hold_and_are_said(tmp_path: Path) -> None:
    (tmp_path / "weak.dss").write_text(
        WEAK.replace("KW", "90")
        .replace("basekv=4.16", "basekv=4.16 pu=1.03")
        .replace("Clear", "Clear\nSet DefaultBaseFrequency=50")
        + "Set MaxIterations=40 Tolerance=1e-6 LoadMult=1.2\n"
    )
    found = check_own_feeder(tmp_path / "weak.dss", 700.0, ["b"]).found
    assert (found.source_pu, found.frequency_hz, found.load_multiplier) == (1.03, 50.0, 1.2)
    assert (found.tolerance_pu, found.max_iterations) == (1e-6, 40)


def test_nodes_without_voltage_or_with_a_wrong_base_are_named(tmp_path: Path) -> None:
    more = (
        "New Line.cut bus1=a bus2=c length=1 units=km r1=0.3 x1=0.6\nOpen Line.cut 1\n"
        "New Transformer.t phases=3 windings=2 buses=(a d) kvs=(4.16 0.48) kvas=(50 50)\nSet VoltageBases"
    )
    (tmp_path / "weak.dss").write_text(
        WEAK.replace("KW", "90").replace("Set VoltageBases", more).replace("CalcVoltageBases", "CalcVoltageBases\n")
        + "SetkVBase bus=c kvll=4.16\nSetkVBase bus=d kvll=0.16\n"
    )
    found = check_own_feeder(tmp_path / "weak.dss", 700.0, ["b"]).found
    assert found.dead == ("c.1", "c.2", "c.3")
    assert [node.node for node in found.implausible] == ["d.1", "d.2", "d.3"]
    assert {node.node for node in found.outside} >= {"d.1", "d.2", "d.3"}
    assert 2.9 < found.highest.voltage_pu < 3.1
