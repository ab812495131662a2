"""Split a library into parts such as train, validation and test, which share neither a seed nor a scenario."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from scenario_lib.errors import LibraryError
from scenario_lib.feeders.arguments import as_flag, as_path, as_whole_number
from scenario_lib.feeders.canonical import digest_of
from scenario_lib.library.deal import Group, deal, linked
from scenario_lib.library.derive import Entry, entries_of, write_derived
from scenario_lib.library.loader import AnyLibrary, ScenarioLibrary, library_path, opened
from scenario_lib.library.ownership import require_parts_replaceable
from scenario_lib.library.parts import LEFT_OUT, Parts, as_parts
from scenario_lib.library.place import new_library, require_place
from scenario_lib.library.publish import sync_directory
from scenario_lib.scenario.canonical import resolve
from scenario_lib.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class PartReport:
    """What one part holds; `path` is None for what no part took."""

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
    dealt = assign(library, entries, sizes.shares(len(library)), seed)
    by_part = {name: [entry for entry in entries if dealt[entry.row.seed] == name] for name in (*sizes.sizes, LEFT_OUT)}
    _require_records({name: by_part[name] for name in sizes.sizes}, library)
    with new_library(place, overwrite, inputs, require_parts_replaceable) as folder:
        for name in sizes.sizes:
            (folder / name).mkdir()
            write_derived(folder / name, by_part[name], [library], {"command": "split", "part": name, "seed": seed})
            sync_directory(folder / name)
    reports = [_report(target / name, by_part[name]) for name in sizes.sizes]
    return [*reports, _report(None, by_part[LEFT_OUT])] if by_part[LEFT_OUT] else reports


def assign(
    library: ScenarioLibrary, entries: Sequence[Entry], shares: Mapping[str, Fraction], seed: int
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
    dealt = deal(_groups(strata), shares, seed)
    dealt |= deal(_groups({name: kinds for name, kinds in rejected.items() if name not in dealt}), shares, seed)
    return {name: dealt[leader] for name, leader in leaders.items()}


def _groups(strata: Mapping[int, list[str]]) -> list[Group]:
    return [Group(name, " + ".join(sorted(kinds)), len(kinds)) for name, kinds in strata.items()]


def _links(library: ScenarioLibrary, entry: Entry) -> list[tuple[int, object]]:
    """What ties a candidate to others: its seed, and its scenario."""
    seed = entry.row.seed
    if entry.record is None:
        return [(seed, seed)]
    return [(seed, seed), (seed, content_digest(library.materialize(entry.record)))]


def content_digest(scenario: Scenario) -> str:
    """Digest of a scenario without its seed: equal for two seeds that drew the same hour."""
    return digest_of({name: value for name, value in resolve(scenario).items() if name != "seed"})


def _require_records(by_part: Mapping[str, list[Entry]], library: ScenarioLibrary) -> None:
    for name, entries in by_part.items():
        if not any(entry.row.accepted for entry in entries):
            raise LibraryError(
                f"{library.path}: no record is left for part {name!r}; the library has {len(library)}, which is too "
                f"few for these parts, or seeds tie them together"
            )


def _report(path: Path | None, entries: Sequence[Entry]) -> PartReport:
    kinds = Counter(entry.record.kind for entry in entries if entry.record is not None)
    return PartReport(path, kinds.total(), len(entries), dict(kinds))
