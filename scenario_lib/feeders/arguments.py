"""What callers may pass in place of a type: turned into it where it comes in, or refused by name.

Every converter takes the field's name and the value, and returns the value as the type. Frozen settings name the
converters of their fields in `__post_init__`, functions call them first thing.
"""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from scenario_lib.errors import InvalidSettingError

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
