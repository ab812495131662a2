"""Parse plain tables (from TOML or JSON) into this package's frozen types, with errors that name the place."""

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.regular_files import read_text

T = TypeVar("T")


def read_toml(path: Path) -> dict[str, Any]:
    """Tables of a TOML file.

    Raises:
        MissingDataError: No such file.
        DataFileError: Not TOML, or not UTF-8.
    """
    try:
        return tomllib.loads(read_text(path))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise MissingDataError(f"{path}: no such file; give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataFileError(f"{path}: not a TOML file ({error}); correct it there") from None


def parse_as(kind: type[T], tables: Any, source: str) -> T:
    """Value of type `kind` made of plain tables; unknown keys, missing keys, wrong types and NaN are refused.

    A whole number may stand for a float; nothing else is converted ("8" is no number, true is not 1).

    Raises:
        DataFileError: Naming the source, and for each fault the field, what was found, and what was expected.
    """
    # Imported here: most commands never parse a file, and pydantic takes a while to load.
    from pydantic import TypeAdapter, ValidationError

    try:
        # By way of JSON, because only there does strictness leave lists to become tuples.
        return TypeAdapter(kind).validate_json(json.dumps(tables, default=_foreign), strict=True)
    except ValidationError as error:
        faults = "; ".join(_sentence(fault) for fault in error.errors())
        raise DataFileError(f"{source}: {faults}") from None


def _foreign(value: object) -> dict[str, str]:
    """A date or time, which TOML has and no field here wants, in a form that every field refuses."""
    return {type(value).__name__: str(value)}


def _sentence(fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"])
    text = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] in ("value_error", "missing", "unexpected_keyword_argument"):
        return f"{place}: {text}" if place else text
    return f"{place or 'it'} is {fault['input']!r}: {text}"
