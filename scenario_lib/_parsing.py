"""Parse plain tables (from TOML or JSON) into this package's frozen types, with errors that name the place.

Read a CSV table of this project's own data into frozen types.

Where the shipped data lie, in a checkout as in an installed wheel.
"""

import csv
import io
import json
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from scenario_lib._files import open_regular, read_text
from scenario_lib._values import few, likely, shown
from scenario_lib.errors import (
    DataFileError,
    InvalidSettingError,
    MissingDataError,
    SettingsFileError,
    UnknownNameError,
)

T = TypeVar("T")

_LARGEST_TOML_BYTES = 4 * 1024**2
"""A list of 400 000 seeds; more takes Python's parser longer than anybody waits for a refusal."""

_MOST_FAULTS = 3
_MOST_NAMES = 10_000
"""In one table: regulators of a large feeder are the most that anything honest needs."""

_UNKNOWN = "unexpected_keyword_argument"  # pydantic's name of this fault

_KINDS = {
    "a recipe ('scenario-lib build --config')": {"system", "randomization", "screening", "candidates", "strata"},
    "settings of a training ('scenario-lib train --config')": {
        "environment",
        "reward",
        "ppo",
        "steps",
        "envs",
        "checkpoint_steps",
    },
    "a nightly run ('scenario-lib nightly')": {"root", "recipe", "seed_advance", "replay", "keep"},
    "an experiment (--system)": {"feeder", "sites", "pv_systems", "loads", "ofo", "datacenter", "models"},
    "a model": {"spec", "logistic", "itl_mixture", "power_trace"},
}
"""Kinds of settings files, with the tables that no other kind has."""

RECIPE, TRAINING, NIGHTLY, EXPERIMENT, MODEL = _KINDS

# What a value should have been, by the start of pydantic's names for faults.
_WANTED = {
    "bool": "true or false",
    "int": "a whole number",
    "finite_number": "a finite number",
    "float": "a number",
    "string": "a text",
    "tuple": "a list",
    "list": "a list",
    "too_": "a list of another length",
    "dict": "a table",
    "dataclass": "a table",
    "literal": "one of the values allowed here",
}


def read_toml(path: Path, kind: str) -> dict[str, Any]:
    """Tables of a TOML file.

    Args:
        kind: What the file should be, one of the kinds named above.

    Raises:
        MissingDataError: No such file.
        DataFileError: Not TOML, not UTF-8, or larger than any settings.
        InvalidSettingError: A file of another kind.
    """
    tables = _toml_tables(path)
    others = [other for other, own in _KINDS.items() if own & tables.keys()]
    if others and kind not in others:
        raise InvalidSettingError(f"{path}: is {others[0]}; expected {kind}")
    largest = max((len(table) for table in (tables, *tables.values()) if isinstance(table, dict)), default=0)
    if largest > _MOST_NAMES:
        raise DataFileError(f"{path}: has {largest} names in one table; expected at most {_MOST_NAMES}")
    return tables


def _toml_tables(path: Path) -> dict[str, Any]:
    if not path.exists() or path.is_dir():
        raise MissingDataError(f"{path}: no such file; give the path of a TOML file")
    size = path.stat().st_size
    if size > _LARGEST_TOML_BYTES:
        raise DataFileError(f"{path}: has {size} bytes; expected at most {_LARGEST_TOML_BYTES} of settings")
    try:
        return tomllib.loads(read_text(path).removeprefix("\ufeff"))
    except RecursionError:
        raise DataFileError(f"{path}: not a TOML file (nested too deeply); correct it there") from None
    except ValueError as error:  # of the parser, of UTF-8, or Python's own about numbers of thousands of digits
        text = "a number has too many digits" if "integer string conversion" in str(error) else str(error)[:200]
        raise DataFileError(f"{path}: not a TOML file ({text}); correct it there") from None


def parse_as(kind: type[T], tables: Any, source: str) -> T:
    """Value of type `kind` made of plain tables; unknown keys, missing keys, wrong types and NaN are refused.

    A whole number may stand for a float; nothing else is converted ("8" is no number, true is not 1).

    Raises:
        DataFileError: Naming the source, and for the first faults the field, what was found, and what was expected.
    """
    # Imported here: most commands never parse a file, and pydantic takes a while to load.
    from pydantic import TypeAdapter, ValidationError

    try:
        # By way of JSON, because only there does strictness leave lists to become tuples.
        return TypeAdapter(kind).validate_json(json.dumps(tables, default=_foreign), strict=True)
    except ValidationError as error:
        found = sorted(error.errors(include_url=False), key=lambda fault: fault["type"] != _UNKNOWN)
        faults = "; ".join(_sentence(kind, fault) for fault in found[:_MOST_FAULTS])
        more = len(found) - _MOST_FAULTS
        raise DataFileError(f"{source}: {faults}" + (f"; and {more} more faults" if more > 0 else "")) from None
    except RecursionError:
        raise DataFileError(f"{source}: nested too deeply; expected tables as the documentation shows them") from None
    except ValueError:  # Python's own, about writing whole numbers of thousands of digits
        raise DataFileError(f"{source}: a number has too many digits; expected one that a computer holds") from None


def parse_settings_file(kind: type[T], tables: Any, source: str) -> T:
    """As `parse_as`, of a settings file of the user's: what is wrong there is wrong usage.

    Raises:
        SettingsFileError: Naming the file, the fields, what was found, and what was expected.
    """
    try:
        return parse_as(kind, tables, source)
    except DataFileError as error:
        raise SettingsFileError(str(error)) from None


def _foreign(value: object) -> dict[str, str]:
    """A date or time, which TOML has and no field here wants, in a form that every field refuses."""
    return {type(value).__name__: str(value)}


def _sentence(kind: Any, fault: Any) -> str:
    place = ".".join(few([part]) for part in fault["loc"])
    text = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return f"{place}: {text}" if place else text
    if fault["type"] == "missing":
        return f"{place}: is missing"
    if fault["type"] == _UNKNOWN:
        return f"{place}: is not known; {likely(fault['loc'][-1], _names_beside(kind, fault['loc']))}"
    wanted = next((text for start, text in _WANTED.items() if fault["type"].startswith(start)), "another value")
    return f"{place or 'the whole'} is {shown(fault['input'])}; expected {wanted}"


def _names_beside(kind: Any, place: tuple[int | str, ...]) -> list[str]:
    """Names of the fields that could stand at the last part of a place within a value of type `kind`."""
    tables = list(_tables_of(kind))
    for part in place[:-1]:
        hints = [get_type_hints(table)[part] for table in tables if part in get_type_hints(table)]
        tables = [inner for hint in hints for inner in _tables_of(hint)] if hints else tables
    return [field.name for table in tables for field in fields(table)]


def _tables_of(kind: Any) -> Iterator[Any]:
    """The frozen types that a field's type is, or holds in a list or as one of several."""
    if is_dataclass(kind):
        yield kind
    for inner in get_args(kind):
        yield from _tables_of(inner)


Row = TypeVar("Row")


def read_rows(path: Path, kind: type[Row]) -> tuple[Row, ...]:
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


def data_dir() -> Path:
    """Folder of the shipped data: `feeders/`, `models/`, `specs/`, `recipes/`."""
    return Path(str(files("scenario_lib.data")))


SHIPPED_KINDS = ("recipes", "training", "nightly")
"""Folders of the settings files that ship."""


def shipped_files(kind: str) -> dict[str, Path]:
    """The settings files of one of `SHIPPED_KINDS`, by name."""
    return {path.stem: path for path in sorted((data_dir() / kind).glob("*.toml"))}


def named_file(kind: str, value: Path) -> Path:
    """A settings file by its path, or a shipped one by its name; what is there under a path wins.

    Raises:
        UnknownNameError: A bare name that neither is a file here nor ships.
    """
    if value.exists() or value.name != str(value) or value.suffix:
        return value
    shipped = shipped_files(kind)
    if value.name not in shipped:
        raise UnknownNameError(f"{value}: no such file, and no shipped one of that name; {likely(value.name, shipped)}")
    return shipped[value.name]
