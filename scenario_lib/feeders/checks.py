"""Checks that settings and facts share: each names the field, the value, and what is allowed."""

import difflib
import math
from collections.abc import Hashable, Iterable

from scenario_lib.errors import InvalidSettingError, UnknownNameError

# Read by pydantic where a frozen type is parsed from a file: unknown keys and NaN are refused there.
STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}


def refuse(field: str, found: object, expected: str) -> InvalidSettingError:
    """The error for a field whose value is not allowed."""
    return InvalidSettingError(f"{field} is {found!r}; expected {expected}")


def require_known(where: str, names: Iterable[object], known: Iterable[str]) -> None:
    """Refuse a name that is none of the known ones, with the one that was probably meant.

    Raises:
        UnknownNameError: One is unknown.
    """
    expected = list(known)
    for name in names:
        if name not in expected:
            close = difflib.get_close_matches(str(name), expected, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise UnknownNameError(f"{where} has no {name!r}; expected some of {', '.join(expected)}{meant}")


def require_finite(field: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise refuse(field, value, "a finite number")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float, which a file may hold
        return False


def require_at_least(field: str, value: float, lowest: float) -> None:
    require_finite(field, value)
    if value < lowest:
        raise refuse(field, value, f"at least {lowest:g}")


def require_positive(field: str, value: float) -> None:
    require_finite(field, value)
    if value <= 0:
        raise refuse(field, value, "more than 0")


def require_between(field: str, value: float, lowest: float, highest: float) -> None:
    require_finite(field, value)
    if not lowest <= value <= highest:
        raise refuse(field, value, f"between {lowest:g} and {highest:g}")


def require_count(field: str, value: int, lowest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(field, value, "a whole number")
    require_at_least(field, value, lowest)


def require_distinct(field: str, values: Iterable[Hashable]) -> None:
    listed = list(values)
    if len(set(listed)) != len(listed):
        twice = sorted({str(value) for value in listed if listed.count(value) > 1})
        raise refuse(field, listed, f"each only once (twice: {', '.join(twice)})")
