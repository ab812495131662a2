"""Parse plain tables (from TOML or JSON) into this package's frozen types, with errors that name the place."""

from typing import Any, TypeVar

from scenario_lib.errors import DataFileError

T = TypeVar("T")


def parse_as(kind: type[T], tables: Any, source: str) -> T:
    """Value of type `kind` made of plain tables; unknown keys, missing keys, wrong types and NaN are refused.

    Raises:
        DataFileError: Naming the source, and for each fault the field, what was found, and what was expected.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(tables)
    except ValidationError as error:
        faults = "; ".join(_sentence(fault) for fault in error.errors())
        raise DataFileError(f"{source}: {faults}") from None


def _sentence(fault: Any) -> str:
    place = ".".join(str(part) for part in fault["loc"]) or "the whole"
    text = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] in ("value_error", "missing", "unexpected_keyword_argument"):
        return f"{place}: {text}"
    return f"{place} is {fault['input']!r}: {text}"
