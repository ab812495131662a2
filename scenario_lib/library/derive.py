"""Libraries made from others: candidates with their records are taken as they are, and replay or are refused.

Nothing is simulated again and no figure changes. Every record is drawn again on the way, and both its traces are
compared with their digests, so that a derived library holds only what its sources can prove.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenario_lib.errors import LibraryError, ReplayError, ScenarioLibError
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.files import CANDIDATES, METADATA
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.origin import write_origin
from scenario_lib.library.record import CONTRACT_FIELDS, RecordFields, RecordProof, ScenarioRecord
from scenario_lib.library.strata import hull, in_order, to_state
from scenario_lib.library.traces import Array
from scenario_lib.library.writer import NewLibrary, NewRecord, write_library
from scenario_lib.scenario.canonical import resolve

SeedAndRecipe = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One candidate of a library.

    Attributes:
        library: Where it is from.
        record: Its record, if it was accepted.
    """

    library: ScenarioLibrary
    row: CandidateRow
    record: ScenarioRecord | None

    @property
    def key(self) -> SeedAndRecipe:
        """What it is known by within a library, and the order of entries there."""
        return (self.row.seed, self.row.recipe)


def entries_of(library: ScenarioLibrary) -> list[Entry]:
    """All candidates of a library, with the records of the accepted ones.

    Raises:
        LibraryError: The library has no digests, or its table and records do not fit.
    """
    if not library.contents.digests:
        seeds = ",".join(str(record.seed) for record in library)
        raise LibraryError(
            f"{library.path}: has no digests, so that its records cannot be proven, and cannot be taken into another "
            f"library; build them again from its settings: scenario-lib build --config RECIPE --seeds {seeds}"
        )
    records = {(record.seed, proof_of(record).recipe): record for record in library}
    rows = [CandidateRow(**row) for row in library.candidates.to_pylist()]
    accepted = {(row.seed, row.recipe): row.scenario_digest for row in rows if row.accepted}
    if accepted != {key: proof_of(record).scenario_digest for key, record in records.items()}:
        raise LibraryError(f"{library.path / CANDIDATES}: accepted rows are not the records of {METADATA}")
    for name in {row.recipe for row in rows}:
        if name not in library.recipes or library.recipes[name].id != name:
            raise LibraryError(f"{library.path / METADATA}: recipe {name!r} is not there, or was edited")
    return [Entry(library, row, records.get((row.seed, row.recipe)) if row.accepted else None) for row in rows]


def proof_of(record: ScenarioRecord) -> RecordProof:
    """The digests of a record of ours.

    Raises:
        LibraryError: It has none.
    """
    if record.proof is None:
        raise LibraryError(f"the record of seed {record.seed} has no digests")
    return record.proof


def derived(entries: Iterable[Entry], sources: Sequence[ScenarioLibrary]) -> NewLibrary:
    """The library that these candidates of some libraries make, in the order of seeds.

    Raises:
        ReplayError: A record cannot be drawn again; the message names the library, the seed and the cause.
    """
    ordered = sorted(entries, key=lambda entry: entry.key)
    used = {entry.row.recipe for entry in ordered}
    recipes = {name: recipe for source in sources for name, recipe in source.recipes.items() if name in used}
    strata = in_order(s for source in sources for s in source.contents.strata if s.recipe in used)
    return NewLibrary(
        recipes=tuple(recipes[name] for name in sorted(recipes)),
        records=tuple(_replayed(entry.library, entry.record) for entry in ordered if entry.record is not None),
        candidates=[entry.row for entry in ordered],
        screening=hull(strata),
        versions=_versions(sources),
        reproducible=all(source.contents.reproducible for source in sources),
        strata=to_state(strata),
    )


def _replayed(library: ScenarioLibrary, record: ScenarioRecord) -> NewRecord:
    try:
        scenario = library.materialize(record)
    except ScenarioLibError as error:
        raise ReplayError(
            f"{library.path}: seed {record.seed} does not replay, so nothing was written: {error}"
        ) from None
    fields = RecordFields(**{name: getattr(record, name) for name in CONTRACT_FIELDS})
    return NewRecord(fields, proof_of(record), resolve(scenario))


def _versions(sources: Sequence[ScenarioLibrary]) -> dict[str, str]:
    """Versions by name; where libraries were built with several, all of them, as "2.0.1, 2.1.0"."""
    found: dict[str, set[str]] = {}
    for source in sources:
        for name, version in source.contents.versions.items():
            found.setdefault(name, set()).update(version.split(", "))
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()}


def write_derived(
    folder: Path, entries: Sequence[Entry], sources: Sequence[ScenarioLibrary], done: dict[str, Any]
) -> NewLibrary:
    """Write a derived library into an empty directory.

    Args:
        folder: Existing and empty.
        entries: In any order; the files do not depend on it.
        sources: The libraries that they are from; in any order too.
        done: What was done; goes into the build log, which is not compared.

    Raises:
        ReplayError, LibraryError: A record cannot be drawn again, or a trace is not the one that was screened.
    """
    library = derived(entries, sources)
    write_library(folder, library, _traces(entries))
    write_origin(folder, [source.path for source in sources], done)
    return library


def _traces(entries: Iterable[Entry]) -> Iterator[tuple[Array, Array]]:
    for entry in sorted(entries, key=lambda entry: entry.key):
        if entry.record is not None:
            yield entry.record.baseline_voltage_pen_per_step, entry.record.ofo_voltage_pen_per_step
