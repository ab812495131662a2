"""The feeder check: what an experiment names must be in the circuit, because OpenDSS would make it up."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenario_lib.errors import DataFileError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.simulation.opendss.check import check_feeder

Edit = Callable[[str, str], Path]


@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_shipped_experiments_fit_their_circuits(system: str) -> None:
    check_feeder(load_experiment(system))


def test_the_village_fits(village: Experiment) -> None:
    check_feeder(village)
    check_feeder(replace(village, feeder=replace(village.feeder, initial_taps_pu={"REG1": 1.0})))
    (site,) = village.sites
    check_feeder(replace(village, sites=(replace(site, bus="Harbour", bus_kv=4.2),)))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('bus = "harbour"', 'bus = "harbor"', "site hall: no bus 'harbor'"),
        ('bus = "school"', 'bus = "scool"', "PV system 0: no bus 'scool'"),
        ('bus = "lane"', 'bus = "lain"', "load 0: no bus 'lain'"),
        ('bus = "harbour"', 'bus = "farm"', "site hall: bus 'farm' lacks a phase; a datacenter needs all three"),
        ('bus = "harbour"', 'bus = "lane"', "site hall: bus 'lane' lacks a phase; a datacenter needs all three"),
        ("reg1 = ", "reg9 = ", r"no regulator control 'reg9' \(it has reg1\)"),
        (
            'bus = "harbour"\nbus_kv = 4.16',
            'bus = "harbour"\nbus_kv = 12.47',
            "site hall: bus_kv is 12.47, but bus 'harbour' has 4.16 kV line to line",
        ),
        ('bus = "lane"\nbus_kv = 4.16', 'bus = "lane"\nbus_kv = 2.4', "load 0: bus_kv is 2.4, but bus 'lane' has 4.16"),
        ('bus = "school"\nbus_kv = 4.16', 'bus = "school"\nbus_kv = 4.3', "PV system 0: bus_kv is 4.3"),
    ],
)
def test_what_does_not_fit_is_named(edited_village: Edit, old: str, new: str, fault: str) -> None:
    experiment = load_experiment(edited_village(old, new))
    with pytest.raises(DataFileError, match=rf"village\.dss: {fault}.*; correct the experiment or the circuit$"):
        check_feeder(experiment)


def test_all_faults_are_named_at_once(edited_village: Edit) -> None:
    edited_village('bus = "harbour"', 'bus = "harbor"')
    edited_village('bus = "lane"', 'bus = "lain"')
    experiment = load_experiment(edited_village("reg1 = ", "reg9 = "))
    with pytest.raises(DataFileError, match=r"'reg9'.*'harbor'.*'lain'"):
        check_feeder(experiment)


def test_a_circuit_without_voltage_bases_is_refused(edited_village: Edit) -> None:
    """openg2g would rate everything at 0 kV."""
    experiment = load_experiment(edited_village("\nSet VoltageBases=[12.47 4.16]\nCalcVoltageBases", ""))
    with pytest.raises(
        DataFileError, match=r"village\.dss: .*bus 'harbour' has no voltage base \(end the circuit with"
    ):
        check_feeder(experiment)


@pytest.mark.parametrize("text", ["New Lin.e a b c\n", "not a circuit at all\n"])
def test_a_circuit_that_does_not_compile_is_refused(edited_village: Edit, text: str) -> None:
    path = edited_village('name = "village"', 'name = "other"')
    circuit = path.with_name("village.dss")
    circuit.write_text(f"{circuit.read_text(encoding='utf-8')}\n{text}", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"village\.dss: OpenDSS cannot compile it: "):
        check_feeder(load_experiment(path))


@pytest.mark.parametrize("text", ["", "! only a remark\n"])
def test_an_empty_circuit_has_nothing_that_is_named(edited_village: Edit, text: str) -> None:
    path = edited_village('name = "village"', 'name = "other"')
    path.with_name("village.dss").write_text(text, encoding="utf-8")
    with pytest.raises(DataFileError, match=r"village\.dss: "):
        check_feeder(load_experiment(path))
