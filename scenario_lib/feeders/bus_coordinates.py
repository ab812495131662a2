"""Where a feeder's buses are drawn: `bus_coordinates.csv` beside its circuit, with the columns bus, x and y."""

import csv
import math
from pathlib import Path

from scenario_lib.errors import DataFileError
from scenario_lib.feeders.regular_files import read_text, require_regular

FILE_NAME = "bus_coordinates.csv"
_COLUMNS = ["bus", "x", "y"]

Position = tuple[float, float]


def read_bus_coordinates(circuit: Path) -> dict[str, Position] | None:
    """Positions (x, y) by bus, lower case, in arbitrary units; None without a file beside the circuit.

    Raises:
        DataFileError: Not such a file; names the file and the line.
    """
    path = circuit.parent / FILE_NAME
    if not path.is_file():
        require_regular(path)
        return None
    try:
        lines = list(csv.reader(read_text(path).splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataFileError(f"{path}: not a CSV file ({error})") from None
    if not lines or lines[0] != _COLUMNS:
        raise DataFileError(f"{path}: first line is {lines[:1]}; expected {','.join(_COLUMNS)}")
    return dict(_position(line, f"{path}, line {number}") for number, line in enumerate(lines[1:], start=2))


def _position(line: list[str], place: str) -> tuple[str, Position]:
    try:
        bus, x, y = line
        position = (float(x), float(y))
    except ValueError:
        raise DataFileError(f"{place}: {line}; expected a bus and two numbers") from None
    if not all(map(math.isfinite, position)):
        raise DataFileError(f"{place}: {line}; expected finite numbers")
    return bus.lower(), position
