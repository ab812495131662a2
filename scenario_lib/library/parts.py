"""Parts of a library by name, and how large each is to be: fractions that are kept exactly, or numbers of records."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

from scenario_lib.feeders.arguments import as_flag, convert_fields, refused
from scenario_lib.feeders.checks import refuse

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

LEFT_OUT = ""
"""The part of what no part takes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How large each part is to be.

    Attributes:
        sizes: By name: a fraction of the records, or a number of them.
        are_counts: Whether sizes are numbers of records.

    Raises:
        InvalidSettingError: No parts, a name that cannot be a folder's, a size that is not above 0 or no number, or
            fractions of more than the whole.
    """

    sizes: Mapping[str, Fraction]
    are_counts: bool

    def __post_init__(self) -> None:
        convert_fields(self, sizes=_sizes, are_counts=as_flag)
        whole = [size.denominator == 1 for size in self.sizes.values()]
        if self.are_counts and not all(whole):
            raise refuse("parts", _plain(self.sizes), "all fractions (0.8) or all numbers of records (160)")
        if not self.are_counts and sum(self.sizes.values()) > 1:
            raise refuse("parts", _plain(self.sizes), "fractions of 1 in all")

    def shares(self, records: int) -> dict[str, Fraction]:
        """Share of every part, and of what is left out, among so many records.

        Raises:
            InvalidSettingError: More records are asked for than there are.
        """
        whole = records if self.are_counts else 1
        shares = {name: size / whole for name, size in self.sizes.items()}
        rest = 1 - sum(shares.values())
        if rest < 0:
            raise refuse("parts", sum(self.sizes.values()), f"at most the {records} records of the library")
        return {**shares, LEFT_OUT: Fraction(rest)} if rest else shares


def parse_parts(text: str) -> Parts:
    """Parts from "train=0.8,validation=0.1,test=0.1" or "train=160,test=40".

    Raises:
        InvalidSettingError: Not of that form, a name twice, or fractions of more than the whole.
    """
    sizes: dict[str, Fraction] = {}
    decimal = set()
    for part in text.split(","):
        name, _, size = part.strip().partition("=")
        if not _NAME.fullmatch(name) or not re.fullmatch(r"\d+|\d*\.\d+", size) or name in sizes:
            raise refuse("parts", text, "names with sizes, each name once, such as train=0.8,test=0.2 or train=160")
        sizes[name] = Fraction(size)
        decimal.add("." in size)
    if len(decimal) > 1 or min(sizes.values()) <= 0:
        raise refuse("parts", text, "sizes above 0, all fractions (0.8) or all numbers of records (160)")
    return Parts(sizes, are_counts=decimal == {False})


def as_parts(field: str, value: object) -> Parts:
    """Parts, their text, or a mapping of names to fractions (0.8) or to numbers of records (160)."""
    if isinstance(value, Parts):
        return value
    if isinstance(value, str):
        return parse_parts(value)
    sizes = _sizes(field, value)
    counts = {isinstance(size, Integral) for size in dict(value).values()}  # type: ignore[call-overload]
    if len(counts) > 1:
        raise refuse(field, _plain(sizes), "all fractions (0.8) or all numbers of records (160)")
    return Parts(sizes, are_counts=counts == {True})


def _sizes(field: str, value: object) -> dict[str, Fraction]:
    """Sizes as they read: 0.1 is a tenth, not the binary number next to it."""
    if not isinstance(value, Mapping) or not value:
        raise refused(field, value, "a mapping of names to sizes, such as {'train': 0.8, 'test': 0.2}")
    sizes = {}
    for name, size in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise refused(f"{field}: name", name, "letters, digits, '-' and '_'")
        sizes[name] = _size(f"{field}: size of {name}", size)
    return sizes


def _size(field: str, value: object) -> Fraction:
    try:
        size = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise refused(field, value, "a number above 0") from None
    if size <= 0:
        raise refused(field, value, "a number above 0")
    return size


def _plain(sizes: Mapping[str, Fraction]) -> dict[str, str]:
    """Sizes as messages show them."""
    return {name: f"{float(size):g}" for name, size in sizes.items()}
