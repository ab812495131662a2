"""Split a library into parts such as train, validation and test, which share neither a seed nor a scenario.

How large each part is to be is said by fractions, which are kept exactly, or numbers of records. Groups of records are
dealt to the parts proportionally within every stratum, the same whatever order they come in.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any

from scenario_lib._files import digest_of
from scenario_lib._values import as_flag, as_path, as_whole_number, convert_fields, refuse, refused
from scenario_lib.errors import LibraryError
from scenario_lib.library.combine import StoredCandidate, entries_of, write_derived
from scenario_lib.library.library import AnyLibrary, ScenarioLibrary, library_path, opened
from scenario_lib.library.place import new_library, require_parts_replaceable, require_place, sync_directory
from scenario_lib.scenario.model import Scenario, resolve


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """Records that must stay together.

    Attributes:
        name: What it is known by, whatever else is in the library; a seed.
        stratum: Groups of one stratum are dealt in proportion; any text, for its order.
        size: Records.
    """

    name: int
    stratum: str
    size: int


def share_out(groups: Iterable[SplitGroup], shares: Mapping[str, Fraction], seed: int) -> dict[int, str]:
    """Part of every group, by its name.

    Stratum after stratum, in an order within each that only `seed` and the names decide, a group goes to the part
    that is furthest behind its share. So the parts of the whole, and of every stratum, are within a few records of
    their shares; where groups hold one record, whole numbers are met exactly.

    Args:
        groups: In any order.
        shares: Part to its share; they sum to 1.
        seed: Decides which records go to which part.
    """
    dealt: dict[int, str] = {}
    total, counts = 0, dict.fromkeys(shares, 0)
    for group in sorted(groups, key=lambda group: (group.stratum, _shuffled(seed, group.name))):
        total += group.size
        behind = max(shares, key=lambda part: shares[part] * total - counts[part])
        counts[behind] += group.size
        dealt[group.name] = behind
    return dealt


def _shuffled(seed: int, name: int) -> str:
    """A place in a random order that does not depend on what else is there."""
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def linked(links: Iterable[tuple[int, Hashable]]) -> dict[int, int]:
    """Names to the least name that they are linked with, over any number of common things."""
    leader: dict[int, int] = {}

    def find(name: int) -> int:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    first: dict[Hashable, int] = {}
    for name, thing in links:
        one, other = find(name), find(first.setdefault(thing, name))
        leader[max(one, other)] = min(one, other)
    return {name: find(name) for name in leader}


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_LEFT_OUT = ""
"""The part of what no part takes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Sizes of the parts.

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
        return {**shares, _LEFT_OUT: Fraction(rest)} if rest else shares


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


@dataclass(frozen=True, slots=True)
class PartReport:
    """Contents of one part; `path` is None for what no part took."""

    path: Path | None
    records: int
    candidates: int
    kinds: dict[str, int]

    @property
    def line(self) -> str:
        """The part as text."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return f"{self.path or 'left out'}: {self.records} records ({kinds}), {self.candidates} candidates"

    def to_dict(self) -> dict[str, Any]:
        """The part as plain values."""
        return {**asdict(self), "path": None if self.path is None else str(self.path)}


def split_library(
    source: AnyLibrary,
    out: str | os.PathLike[str],
    parts: Parts | Mapping[str, float] | str,
    seed: int = 0,
    overwrite: bool = False,
) -> list[PartReport]:
    """Split a library into libraries in the folder `out`, named by part.

    Records are dealt in proportion within every recipe and kind. Records of one seed stay together whatever their
    recipe, since their draws come from one stream of random numbers; so do scenarios that are equal but for the
    seed. Candidates that were not accepted are dealt likewise, by seed and reason, so that a part can be selected
    from. The order of records does not matter, and a record's place in the random order not on the other ones.

    Args:
        source: The library.
        out: Folder of the parts.
        parts: How large each is to be: `Parts`, {"train": 0.8, "test": 0.2}, or "train=160,test=40".
        seed: Of the random order.
        overwrite: Replace the parts that are at `out`.

    Raises:
        BuildRefusedError: Something is at `out` that may not be replaced.
        InvalidSettingError: More records are asked for than there are.
        LibraryError, ReplayError: The library cannot be split: damaged, without digests, too small, not replayable.
    """
    sizes, seed, overwrite = as_parts("parts", parts), as_whole_number("seed", seed), as_flag("overwrite", overwrite)
    place, inputs = as_path("out", out), [library_path("library", source)]
    target = require_place(place, overwrite, inputs, require_parts_replaceable)
    library = opened(source)
    entries = entries_of(library)
    dealt = _assign(library, entries, sizes.shares(len(library)), seed)
    by_part = {
        name: [entry for entry in entries if dealt[entry.row.seed] == name] for name in (*sizes.sizes, _LEFT_OUT)
    }
    _require_records({name: by_part[name] for name in sizes.sizes}, library)
    with new_library(place, overwrite, inputs, require_parts_replaceable) as folder:
        for name in sizes.sizes:
            (folder / name).mkdir()
            write_derived(folder / name, by_part[name], [library], {"command": "split", "part": name, "seed": seed})
            sync_directory(folder / name)
    reports = [_report(target / name, by_part[name]) for name in sizes.sizes]
    return [*reports, _report(None, by_part[_LEFT_OUT])] if by_part[_LEFT_OUT] else reports


def _assign(
    library: ScenarioLibrary, entries: Sequence[StoredCandidate], shares: Mapping[str, Fraction], seed: int
) -> dict[int, str]:
    """Part of every seed."""
    leaders = linked(link for entry in entries for link in _links(library, entry))
    strata: dict[int, list[str]] = {}
    rejected: dict[int, list[str]] = {}
    for entry in entries:
        leader = leaders[entry.row.seed]
        if entry.record is not None:
            strata.setdefault(leader, []).append(f"{entry.row.recipe} {entry.record.kind}")
        else:
            rejected.setdefault(leader, []).append(f"{entry.row.recipe} {entry.row.reason}")
    dealt = share_out(_groups(strata), shares, seed)
    dealt |= share_out(_groups({name: kinds for name, kinds in rejected.items() if name not in dealt}), shares, seed)
    return {name: dealt[leader] for name, leader in leaders.items()}


def _groups(strata: Mapping[int, list[str]]) -> list[SplitGroup]:
    return [SplitGroup(name, " + ".join(sorted(kinds)), len(kinds)) for name, kinds in strata.items()]


def _links(library: ScenarioLibrary, entry: StoredCandidate) -> list[tuple[int, object]]:
    """What ties a candidate to others: its seed, and its scenario."""
    seed = entry.row.seed
    if entry.record is None:
        return [(seed, seed)]
    return [(seed, seed), (seed, content_digest(library.materialize(entry.record)))]


def content_digest(scenario: Scenario) -> str:
    """Digest of a scenario without its seed: equal for two seeds that drew the same hour."""
    return digest_of({name: value for name, value in resolve(scenario).items() if name != "seed"})


def _require_records(by_part: Mapping[str, list[StoredCandidate]], library: ScenarioLibrary) -> None:
    for name, entries in by_part.items():
        if not any(entry.row.accepted for entry in entries):
            raise LibraryError(
                f"{library.path}: no record is left for part {name!r}; the library has {len(library)}, which is too "
                f"few for these parts, or seeds tie them together"
            )


def _report(path: Path | None, entries: Sequence[StoredCandidate]) -> PartReport:
    kinds = Counter(entry.record.kind for entry in entries if entry.record is not None)
    return PartReport(path, kinds.total(), len(entries), dict(kinds))
