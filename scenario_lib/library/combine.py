"""Libraries made from others, by merging several or exporting one recipe: candidates with their records are taken as
they are, and replay or are refused.

Nothing is simulated again and no figure changes. Every record is drawn again on the way, and both its traces are
compared with their digests, so that a derived library holds only what its sources can prove. In a merged library every
record keeps its own recipe, and no scenario is there twice.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scenario_lib._arrays import Floats
from scenario_lib._files import canonical_json
from scenario_lib._values import as_flag, as_path, few, tuple_of
from scenario_lib.errors import InvalidSettingError, LibraryError, ReplayError, ScenarioLibError, UnknownNameError
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.layout import CANDIDATES, METADATA
from scenario_lib.library.library import AnyLibrary, ScenarioLibrary, library_path
from scenario_lib.library.place import new_library, require_place
from scenario_lib.library.provenance import write_origin
from scenario_lib.library.recipe import in_order, loosest_thresholds, to_state
from scenario_lib.library.record import ScenarioRecord, digests_of
from scenario_lib.library.writer import NewLibrary, write_library
from scenario_lib.scenario.model import resolve

SeedAndRecipe = tuple[int, str]


@dataclass(frozen=True, slots=True)
class StoredCandidate:
    """One candidate of a library, as the library stores it.

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


def entries_of(library: ScenarioLibrary) -> list[StoredCandidate]:
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
    records = {(record.seed, digests_of(record).recipe): record for record in library}
    rows = [CandidateRow(**row) for row in library.candidates.to_pylist()]
    accepted = {(row.seed, row.recipe): row.scenario_digest for row in rows if row.accepted}
    if accepted != {key: digests_of(record).scenario_digest for key, record in records.items()}:
        raise LibraryError(f"{library.path / CANDIDATES}: accepted rows are not the records of {METADATA}")
    for name in {row.recipe for row in rows}:
        if name not in library.recipes or library.recipes[name].id != name:
            raise LibraryError(f"{library.path / METADATA}: recipe {name!r} is not there, or was edited")
    return [
        StoredCandidate(library, row, records.get((row.seed, row.recipe)) if row.accepted else None) for row in rows
    ]


def derived(entries: Iterable[StoredCandidate], sources: Sequence[ScenarioLibrary]) -> NewLibrary:
    """The library that these candidates of some libraries make, in the order of seeds.

    Raises:
        ReplayError: A record cannot be drawn again; the message names the library, the seed and the cause.
    """
    ordered = sorted(entries, key=lambda entry: entry.key)
    used = {entry.row.recipe for entry in ordered}
    records = [(entry.library, entry.record) for entry in ordered if entry.record is not None]
    recipes = {name: recipe for source in sources for name, recipe in source.recipes.items() if name in used}
    strata = in_order(s for source in sources for s in source.contents.strata if s.recipe in used)
    return NewLibrary(
        recipes=tuple(recipes[name] for name in sorted(recipes)),
        records=tuple(record for _, record in records),
        resolved=tuple(_resolved(library, record) for library, record in records),
        candidates=[entry.row for entry in ordered],
        screening=loosest_thresholds(strata),
        versions=_versions(sources),
        reproducible=all(source.contents.reproducible for source in sources),
        strata=to_state(strata),
    )


def _resolved(library: ScenarioLibrary, record: ScenarioRecord) -> dict[str, Any]:
    """All numbers of a record's scenario, drawn again."""
    try:
        return resolve(library.materialize(record))
    except ScenarioLibError as error:
        raise ReplayError(
            f"{library.path}: seed {record.seed} does not replay, so nothing was written: {error}"
        ) from None


def _versions(sources: Sequence[ScenarioLibrary]) -> dict[str, str]:
    """Versions by name; where libraries were built with several, all of them, as "2.0.1, 2.1.0"."""
    found: dict[str, set[str]] = {}
    for source in sources:
        for name, version in source.contents.versions.items():
            found.setdefault(name, set()).update(version.split(", "))
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()}


def write_derived(
    folder: Path, entries: Sequence[StoredCandidate], sources: Sequence[ScenarioLibrary], done: dict[str, Any]
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


def _traces(entries: Iterable[StoredCandidate]) -> Iterator[tuple[Floats, Floats]]:
    for entry in sorted(entries, key=lambda entry: entry.key):
        if entry.record is not None:
            yield entry.record.baseline_voltage_pen_per_step, entry.record.ofo_voltage_pen_per_step


@dataclass(frozen=True, slots=True)
class Source:
    """What one of the merged libraries brought, and how much of it another one had too."""

    path: Path
    records: int
    candidates: int
    dropped_records: int
    dropped_candidates: int


@dataclass(frozen=True, slots=True)
class MergeReport:
    """Outcome of a merge.

    Attributes:
        recipes: Recipes of the merged library, with their records.
        feeders: Names of the feeders that they are on.
        differing: Seeds whose scenario several libraries had with other figures, as another engine gives.
    """

    path: Path
    records: int
    candidates: int
    sources: tuple[Source, ...]
    recipes: dict[str, int]
    feeders: tuple[str, ...]
    differing: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        sources = [{**asdict(source), "path": str(source.path)} for source in self.sources]
        return {**asdict(self), "path": str(self.path), "sources": sources}

    def lines(self) -> list[str]:
        """The report as text."""
        lines = [
            f"from                {s.path}: {s.records} records ({s.dropped_records} dropped as duplicates), "
            f"{s.candidates} candidates ({s.dropped_candidates} dropped)"
            for s in self.sources
        ]
        if self.differing:
            seeds = ", ".join(map(str, self.differing[:5]))
            lines.append(
                f"note                {len(self.differing)} duplicates had other figures, such as seed {seeds}"
            )
        if len(self.feeders) > 1:
            lines.append(
                f"note                {len(self.feeders)} feeders are in it: {', '.join(self.feeders)}; an environment "
                f"plays one, so merge libraries of one feeder to train on"
            )
        counts = ", ".join(f"{count} of recipe {name}" for name, count in self.recipes.items())
        lines.append(f"merged              {self.records} records ({counts}), {self.candidates} candidates")
        return [*lines, f"library             {self.path}"]


def merge_libraries(paths: Sequence[AnyLibrary], out: str | os.PathLike[str], overwrite: bool = False) -> MergeReport:
    """Merge libraries into a new one, whose bytes do not depend on the order in which they are named.

    Of candidates with one scenario digest a single one stays: an accepted one rather than a rejected one, then one
    whose OFO rollout ran, then one by the reference engine. A library merged with itself stays as it is, and merging
    in two steps gives what merging at once gives.

    Raises:
        BuildRefusedError: Something is at `out` that may not be replaced.
        InvalidSettingError: Fewer than two libraries.
        LibraryError: One cannot be opened, or has no digests.
        ReplayError: A record cannot be drawn again; the message names the library, the seed and the cause.
    """
    place, overwrite = as_path("out", out), as_flag("overwrite", overwrite)
    sources = tuple_of(library_path)("libraries to merge", paths)
    if len(sources) < 2:
        raise InvalidSettingError(f"libraries to merge: found {len(sources)}; expected two or more")
    target = require_place(place, overwrite, sources)
    libraries = [ScenarioLibrary(path) for path in sources]
    every = [entry for library in libraries for entry in entries_of(library)]
    groups = _by_scenario(every)
    kept = [min(group, key=_preference) for group in groups]
    with new_library(place, overwrite, sources) as folder:
        merged = write_derived(folder, kept, libraries, {"command": "merge"})
    recipes = [digests_of(record).recipe for record in merged.records]
    return MergeReport(
        path=target,
        records=len(merged.records),
        candidates=len(merged.candidates),
        sources=tuple(_source(library, every, kept) for library in libraries),
        recipes={name: recipes.count(name) for name in sorted(set(recipes))},
        feeders=tuple(sorted({recipe.experiment.name for recipe in merged.recipes})),
        differing=tuple(sorted(group[0].row.seed for group in groups if _differ(group))),
    )


def _by_scenario(entries: Iterable[StoredCandidate]) -> list[list[StoredCandidate]]:
    """Entries with one scenario each; a candidate that failed before it was drawn is known by its seed and recipe."""
    listed = list(entries)
    digests: dict[SeedAndRecipe, str] = {e.key: e.row.scenario_digest for e in listed if e.row.scenario_digest}
    groups: dict[object, list[StoredCandidate]] = {}
    for entry in listed:
        groups.setdefault(digests.get(entry.key, entry.key), []).append(entry)
    return list(groups.values())


def _preference(entry: StoredCandidate) -> tuple[bool, bool, bool, bool, str]:
    """Lowest for the candidate that stays; the last part decides where nothing else does, the same in any order."""
    row = entry.row
    digests = {} if entry.record is None else asdict(digests_of(entry.record))
    return (
        not row.accepted,
        not row.ofo_ran,
        row.failure is not None,
        row.engine != "reference",
        canonical_json([asdict(row), digests]),
    )


def _differ(group: list[StoredCandidate]) -> bool:
    accepted = [digests_of(entry.record) for entry in group if entry.record is not None]
    return len({(each.baseline_digest, each.ofo_digest) for each in accepted}) > 1


def _source(library: ScenarioLibrary, every: list[StoredCandidate], kept: list[StoredCandidate]) -> Source:
    own = [entry for entry in every if entry.library is library]
    stayed = {id(entry) for entry in kept}
    dropped = [entry for entry in own if id(entry) not in stayed]
    return Source(
        path=library.path,
        records=sum(entry.row.accepted for entry in own),
        candidates=len(own),
        dropped_records=sum(entry.row.accepted for entry in dropped),
        dropped_candidates=len(dropped),
    )


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Outcome of an export."""

    path: Path
    recipe: str
    records: int
    candidates: int


def export_recipe(source: Path, name: str | None, out: Path, overwrite: bool = False) -> ExportReport:
    """Write the records and candidates of one recipe as a library of their own.

    A library of several recipes has no `config.randomize_kwargs`, so that openg2g's example stops rather than replay
    all records with one of them; what is written here has it.

    Args:
        source: The library.
        name: A recipe's identifier or the name of its stratum; None for the only one.
        out: Where to.
        overwrite: Replace a library that is there.

    Raises:
        BuildRefusedError: Something is at `out` that may not be replaced.
        UnknownNameError: No such recipe, or several and none is named.
        LibraryError, ReplayError: The library cannot be opened or has no digests, or a record does not replay.
    """
    require_place(out, overwrite, [source])
    library = ScenarioLibrary(source)
    recipe_id = _find_recipe(library, name)
    entries = [entry for entry in entries_of(library) if entry.row.recipe == recipe_id]
    if not any(entry.row.accepted for entry in entries):
        raise UnknownNameError(f"{library.path}: no record is of recipe {recipe_id}; export another one")
    with new_library(out, overwrite, [source]) as folder:
        written = write_derived(folder, entries, [library], {"command": "export", "recipe": recipe_id})
    return ExportReport(out.resolve(), recipe_id, len(written.records), len(written.candidates))


def _find_recipe(library: ScenarioLibrary, name: str | None) -> str:
    """Identifier of the recipe that is called so.

    Raises:
        UnknownNameError: None is, or several are.
    """
    found = [i for i, recipe in library.recipes.items() if name is None or name in (i, recipe.stratum)]
    if len(found) == 1:
        return found[0]
    known = few(f"{i} ({r.stratum})" if r.stratum else i for i, r in library.recipes.items())
    asked = "which recipe?" if name is None else f"{len(found) or 'no'} recipes are called {name!r};"
    raise UnknownNameError(f"{library.path}: {asked} expected one of {known}")
