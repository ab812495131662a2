"""Read a CSV table of this project's own data into frozen types."""

import csv
import io
from pathlib import Path
from typing import TypeVar

from scenario_lib.errors import MissingDataError
from scenario_lib.feeders.parsing import parse_as
from scenario_lib.feeders.regular_files import open_regular

T = TypeVar("T")


def read_rows(path: Path, kind: type[T]) -> tuple[T, ...]:
    """One value of type `kind` per line below the header, whose names are the type's fields.

    What reads as a number is one; everything else is text.

    Raises:
        MissingDataError: No such file.
        DataFileError: A field is missing, unknown or not what it should be; names the file, the row and the field.
    """
    try:
        with io.TextIOWrapper(open_regular(path), encoding="utf-8", newline="") as stream:
            rows = [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(stream)]
    except FileNotFoundError:
        raise MissingDataError(f"{path}: no such file; the installation is not whole, install it again") from None
    return parse_as(tuple[kind, ...], rows, str(path))  # type: ignore[valid-type]


def _value(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
