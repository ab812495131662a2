"""Branches and positions of circuits."""

from pathlib import Path

import pytest

from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import experiment_names, load_experiment
from scenario_lib.simulation.opendss.check import read_topology


@pytest.mark.parametrize("system", experiment_names())
def test_every_bus_of_a_shipped_feeder_is_joined_and_has_a_place(system: str) -> None:
    topology = read_topology(load_experiment(system).feeder)
    joined = {bus for branch in topology.branches for bus in branch}
    # Far ends of open switches are nowhere.
    assert {bus for bus in joined if not bus.endswith("_open")} <= topology.positions.keys()
    assert len(topology.branches) >= len(joined) - 1
    assert len(set(topology.branches)) == len(topology.branches)


def test_a_transformer_is_a_branch() -> None:
    assert ("633", "634") in read_topology(load_experiment("ieee13").feeder).branches


def test_positions_may_be_the_circuits_own(village: Experiment, edited_village) -> None:
    with pytest.raises(MissingDataError, match="have no coordinates"):
        read_topology(village.feeder)
    file: Path = edited_village("CalcVoltageBases", "CalcVoltageBases\nSetBusXY bus=Mill x=3 y=4")
    topology = read_topology(load_experiment(file).feeder)
    assert topology.positions == {"mill": (3.0, 4.0)}


def test_a_circuit_that_cannot_be_compiled_is_named(edited_village) -> None:
    file: Path = edited_village("New Circuit", "Nonsense Circuit")
    with pytest.raises(DataFileError, match=r"village\.dss: OpenDSS cannot compile it"):
        read_topology(load_experiment(file).feeder)
