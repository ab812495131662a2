"""Positions of buses, read from the file beside a circuit."""

from pathlib import Path

import pytest

from scenario_lib.errors import DataFileError
from scenario_lib.feeders.circuit_files import read_bus_coordinates
from scenario_lib.feeders.experiment_file import experiment_names, load_experiment


def write(folder: Path, text: str) -> Path:
    (folder / "bus_coordinates.csv").write_text(text, encoding="utf-8")
    return folder / "circuit.dss"


def test_positions_are_read_and_buses_are_lower_case(tmp_path: Path) -> None:
    assert read_bus_coordinates(write(tmp_path, "bus,x,y\nB1,-1,2.5\n")) == {"b1": (-1.0, 2.5)}


def test_a_circuit_without_the_file_has_none(tmp_path: Path) -> None:
    assert read_bus_coordinates(tmp_path / "circuit.dss") is None


@pytest.mark.parametrize("system", experiment_names())
def test_the_shipped_feeders_have_theirs(system: str) -> None:
    positions = read_bus_coordinates(Path(load_experiment(system).feeder.circuit))
    assert positions is not None
    assert "sourcebus" in positions or "150" in positions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line is"),
        ("name,x,y\n", "expected bus,x,y"),
        ("bus,x,y\nb1,1\n", "line 2: ['b1', '1']; expected a bus and two numbers"),
        ("bus,x,y\nb1,1,2\nb2,one,2\n", "line 3"),
        ("bus,x,y\nb1,nan,2\n", "expected finite numbers"),
    ],
)
def test_other_files_are_refused_by_name_and_line(tmp_path: Path, text: str, message: str) -> None:
    circuit = write(tmp_path, text)
    with pytest.raises(DataFileError) as caught:
        read_bus_coordinates(circuit)
    assert str(caught.value).startswith(str(tmp_path / "bus_coordinates.csv"))
    assert message in str(caught.value)
