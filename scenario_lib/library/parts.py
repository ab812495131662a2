"""Parts of a library by name, and how large each is to be: fractions that are kept exactly, or numbers of records."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

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
    """

    sizes: Mapping[str, Fraction]
    are_counts: bool

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
        if not _NAME.fullmatch(name) or not re.fullmatch(r"\d{1,18}|\d{0,18}\.\d{1,18}", size) or name in sizes:
            raise refuse("parts", text, "names with sizes, each name once, such as train=0.8,test=0.2 or train=160")
        sizes[name] = Fraction(size)
        decimal.add("." in size)
    if len(decimal) > 1 or min(sizes.values()) <= 0:
        raise refuse("parts", text, "sizes above 0, all fractions (0.8) or all numbers of records (160)")
    if decimal == {True} and sum(sizes.values()) > 1:
        raise refuse("parts", text, "fractions of 1 in all")
    return Parts(sizes, are_counts=decimal == {False})
