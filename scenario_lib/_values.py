"""What callers may pass in place of a type: turned into it where it comes in, or refused by name.

Every converter takes the field's name and the value, and returns the value as the type. Frozen settings name the
converters of their fields in `__post_init__`, functions call them first thing.

Checks that settings and facts share: each names the field, the value, and what is allowed.
"""

import math
import operator
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from scenario_lib.errors import InvalidSettingError, UnknownNameError

T = TypeVar("T")
Converter = Callable[[str, Any], T]

_SHOWN = 80
"""Characters of a refused value that a message shows; what is passed by mistake may be an array or a library."""


def convert_fields(settings: object, /, **converters: Converter[Any]) -> None:
    """Convert fields of a frozen dataclass in place; called by its `__post_init__`.

    Raises:
        InvalidSettingError: Naming the field, its value, and what is expected.
    """
    for name, convert in converters.items():
        object.__setattr__(settings, name, convert(name, getattr(settings, name)))


def as_path(field: str, value: object) -> Path:
    """A path, or its text."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise refused(field, value, "a path")
    return Path(os.fsdecode(value))


def as_system(field: str, value: object) -> str:
    """A feeder's name, or the path of an experiment's TOML file, as text."""
    return str(as_path(field, value))


def as_flag(field: str, value: object) -> bool:
    """True or False and nothing else: the text "no" is true in Python."""
    if not isinstance(value, bool):
        raise refused(field, value, "True or False")
    return value


def as_whole_number(field: str, value: Any) -> int:
    """A whole number, also one of numpy's; neither 1.0 nor True is one."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refused(field, value, "a whole number")
    try:
        return operator.index(value)
    except TypeError:  # an array of several numbers
        raise refused(field, value, "a whole number") from None


def as_position(field: str, value: Any, count: int) -> int:
    """A position in a sequence of `count`, from 0 on; one below 0 counts from the end.

    Raises:
        InvalidSettingError: Not a whole number.
        IndexError: Beyond either end, as iteration over a sequence expects.
    """
    position = as_whole_number(field, value)
    if not -count <= position < count:
        raise IndexError(f"{field} is {position}; expected -{count} to {count - 1}")
    return position % count


def as_generator(field: str, value: Any) -> np.random.Generator:
    """A generator of random numbers as it is, one from a seed, or an unpredictable one for None."""
    if isinstance(value, np.random.Generator):
        return value
    if value is None:
        return np.random.default_rng()
    try:
        seed = as_whole_number(field, value)
    except InvalidSettingError:
        raise refused(field, value, "a numpy Generator, a seed, or None") from None
    if seed < 0:
        raise refused(field, value, "a seed of at least 0")
    return np.random.default_rng(seed)


def optional(convert: Converter[T]) -> Converter[T | None]:
    """None, or what `convert` takes."""

    def optionally(field: str, value: object) -> T | None:
        return None if value is None else convert(field, value)

    return optionally


def tuple_of(convert: Converter[T]) -> Converter[tuple[T, ...]]:
    """Any list, range or array of what `convert` takes, but not a text, which would fall into letters."""

    def as_tuple(field: str, value: object) -> tuple[T, ...]:
        if isinstance(value, str | bytes | os.PathLike | Mapping) or not isinstance(value, Iterable):
            raise refused(field, value, "a list")
        return tuple(convert(field, item) for item in value)

    return as_tuple


def as_text(field: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise refused(field, value, "a text")
    return value


def instance_of(*kinds: type[Any], hint: str = "") -> Converter[Any]:
    """A value of one of these types; the hint says where one comes from."""

    def checked(field: str, value: object) -> Any:
        if not isinstance(value, kinds):
            raise refused(field, value, " or ".join(_with_article(kind.__name__) for kind in kinds) + hint)
        return value

    return checked


def built_as(kind: type[T]) -> Converter[T]:
    """A frozen dataclass, or a mapping of its fields.

    Raises:
        InvalidSettingError: Neither, or the mapping has a name that is no field.
    """

    def built(field: str, value: object) -> T:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise refused(field, value, f"{_with_article(kind.__name__)}, or a mapping of its fields")
        known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
        for name in value:
            if name not in known:
                raise refused(f"{field}: field", name, f"one of {', '.join(known)}")
        return kind(**value)

    return built


def refused(field: str, value: object, expected: str) -> InvalidSettingError:
    """The error for a value of another type, of which the message shows how it begins."""
    text = " ".join(repr(value).split())
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return InvalidSettingError(f"{field} is {shown}; expected {expected}")


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


# Read by pydantic where a frozen type is parsed from a file: unknown keys and NaN are refused there.
STRICT: dict[str, object] = {"extra": "forbid", "allow_inf_nan": False}

LARGEST_SEED = 2**63 - 1
"""Tables hold seeds as 64-bit whole numbers."""

MOST_GPUS = 1_000_000
"""Limit of one site, and so of one model or job: about a gigawatt. What is simulated per server stays within memory."""

NO_LIMIT = 1e9
"""A threshold this far off is none; also the largest magnitude of a figure without a narrower bound."""

_MOST_NAMED = 8
_MOST_CHARACTERS = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/#&+@-]{0,199}")
_CIRCUIT_NAME = re.compile(r"[A-Za-z0-9_#&+:-]{1,200}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be.

    Attributes:
        low, high: Least and largest value.
        whole: Only whole numbers.
        above: More than `low`, instead of at least.
    """

    low: float
    high: float = NO_LIMIT
    whole: bool = False
    above: bool = False

    def require(self, field: str, value: float) -> None:
        """Refuse a value outside, by the name of its field."""
        if self.whole:
            _require_whole(field, value)
        require_finite(field, value)
        if value < self.low or (self.above and value == self.low):
            raise refuse(field, value, f"{'more than' if self.above else 'at least'} {_bound(self.low)}")
        if value > self.high:
            raise refuse(field, value, f"at most {_bound(self.high)}")


def positive(high: float = NO_LIMIT) -> Bounds:
    """Bounds of a number above 0."""
    return Bounds(0, high, above=True)


def count(low: int = 0, high: int = int(NO_LIMIT)) -> Bounds:
    """Bounds of a whole number."""
    return Bounds(low, high, whole=True)


ANY = Bounds(-NO_LIMIT)
"""Bounds of a number that may be negative."""


def require_bounds(owner: object, bounds: Mapping[str, Bounds], field: str = "{}") -> None:
    """Refuse a value whose fields leave their bounds; fields that are None are left out.

    Args:
        field: How messages name a field, such as "{} of site dc".
    """
    for name, allowed in bounds.items():
        value = getattr(owner, name)
        if value is not None:
            allowed.require(field.format(name), value)


def refuse(field: str, found: object, expected: str) -> InvalidSettingError:
    """The error for a field whose value is not allowed."""
    return InvalidSettingError(f"{field} is {shown(found)}; expected {expected}")


def shown(found: object) -> str:
    """A value in a message: on one line and not longer than one, fractions as decimal numbers."""
    if isinstance(found, Fraction):
        return f"{float(found):g}" if abs(found) < NO_LIMIT else "a number beyond all limits"
    try:
        text = repr(found)
    except ValueError:  # Python writes no whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}... ({len(text)} characters)"


def few(names: Iterable[object], between: str = ", ") -> str:
    """Names in a message: the first of them, and how many more there are."""
    listed = [str(name) for name in names]
    more = len(listed) - _MOST_NAMED
    text = between.join(name[:_MOST_CHARACTERS] for name in listed[:_MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text


def likely(name: object, known: Iterable[str]) -> str:
    """What was probably meant by a name that is not known: "did you mean 'a'?", or a few of those that are."""
    listed = list(known)
    lower = {other.lower(): other for other in reversed(listed)}
    near = get_close_matches(str(name)[:_MOST_CHARACTERS].lower(), lower, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(repr(lower[other]) for other in near)}?"
    return f"expected one of {few(listed)}"


def require_name(field: str, value: object) -> None:
    """Refuse what is no plain name: empty, very long, or with spaces, line breaks or quotes in it."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise refuse(field, value, "a name of letters, digits and _-.:/#&+@, without spaces")


def require_circuit_name(field: str, value: object) -> None:
    """Refuse a name that OpenDSS would not read as one: a space, dot or quote ends it and begins something else."""
    if not isinstance(value, str) or not _CIRCUIT_NAME.fullmatch(value):
        raise refuse(field, value, "the name of a bus: letters, digits and _-:#&+ only")


def require_at_most_entries(field: str, values: Iterable[object], most: int) -> None:
    """Refuse a longer list than anything honest needs."""
    found = sum(1 for _ in values)
    if found > most:
        raise InvalidSettingError(f"{field}: has {found} entries; expected at most {most}")


def require_known(where: str, names: Iterable[object], known: Iterable[str]) -> None:
    """Refuse a name that is none of the known ones, with the one that was probably meant.

    Raises:
        UnknownNameError: One is unknown.
    """
    expected = list(known)
    for name in names:
        if name not in expected:
            raise UnknownNameError(f"{where} has no {shown(name)}; {likely(name, expected)}")


def require_finite(field: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise refuse(field, value, "a finite number")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float, which a file may hold
        return False


def require_at_least(field: str, value: float, lowest: float) -> None:
    Bounds(lowest, math.inf).require(field, value)


def require_positive(field: str, value: float) -> None:
    Bounds(0, math.inf, above=True).require(field, value)


def require_between(field: str, value: float, lowest: float, highest: float) -> None:
    require_finite(field, value)
    if not lowest <= value <= highest:
        raise refuse(field, value, f"between {_bound(lowest)} and {_bound(highest)}")


def _require_whole(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(field, value, "a whole number")


def require_count(field: str, value: int, lowest: int, highest: float = LARGEST_SEED) -> None:
    Bounds(lowest, highest, whole=True).require(field, value)


def require_distinct(field: str, values: Iterable[Hashable]) -> None:
    twice = [value for value, times in Counter(values).items() if times > 1]
    if twice:
        raise InvalidSettingError(f"{field}: expected each only once (twice: {few(twice)})")


def _bound(value: float) -> str:
    """An end of a range in a message, large ones in figures rather than powers of ten."""
    return str(int(value)) if value == int(value) else f"{value:g}"
