"""Which buses of a circuit are joined by lines and transformers, as OpenDSS reads the circuit."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opendssdirect import DSSException
from openg2g.grid.opendss import dss

from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.bus_coordinates import FILE_NAME, Position, read_bus_coordinates
from scenario_lib.feeders.feeder import Feeder
from scenario_lib.simulation.opendss import compile_circuit, opendss_held


@dataclass(frozen=True, slots=True)
class Topology:
    """A circuit to be drawn.

    Attributes:
        branches: Pairs of buses, lower case, each once, in OpenDSS's order.
        positions: Where buses are, (x, y) in arbitrary units; buses without a position are left out.
    """

    branches: tuple[tuple[str, str], ...]
    positions: dict[str, Position]


def read_topology(feeder: Feeder) -> Topology:
    """Branches and positions of a feeder; positions from the file beside its circuit, else from the circuit itself.

    Has OpenDSS compile the circuit, which ends whatever else it was simulating in this process.

    Raises:
        MissingDataError: No bus has a position.
        DataFileError: OpenDSS cannot compile the circuit, or the file of positions is not one.
    """
    positions = read_bus_coordinates(Path(feeder.circuit))
    with opendss_held():
        compile_circuit(Path(feeder.circuit))
        try:
            dss.Text.Command("MakeBusList")
            branches = tuple(dict.fromkeys(_branches()))
            positions = dict(_own_positions()) if positions is None else positions
        except DSSException as error:
            raise DataFileError(f"{feeder.circuit}: OpenDSS cannot compile it: {error}") from None
    if not positions:
        raise MissingDataError(
            f"{feeder.circuit}: its buses have no coordinates, so it cannot be drawn; put a {FILE_NAME} with the "
            f"columns bus, x and y beside it, or BusCoords into it"
        )
    return Topology(branches, positions)


def _branches() -> Iterator[tuple[str, str]]:
    for elements in (dss.Lines, dss.Transformers):
        for _ in elements:
            first, *others = (str(name).partition(".")[0].lower() for name in dss.CktElement.BusNames())
            for other in others:
                if other != first:
                    yield first, other


def _own_positions() -> Iterator[tuple[str, Position]]:
    for name in dss.Circuit.AllBusNames():
        dss.Circuit.SetActiveBus(name)
        if dss.Bus.Coorddefined():
            yield str(name).lower(), (float(dss.Bus.X()), float(dss.Bus.Y()))
