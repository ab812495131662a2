"""Merge libraries: every record keeps its own recipe, and no scenario is there twice."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.arguments import as_flag, as_path, tuple_of
from scenario_lib.feeders.canonical import canonical_json
from scenario_lib.library.derive import Entry, SeedAndRecipe, entries_of, proof_of, write_derived
from scenario_lib.library.loader import AnyLibrary, ScenarioLibrary, library_path
from scenario_lib.library.place import new_library, require_place


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
    """What a merge did.

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
    recipes = [record.proof.recipe for record in merged.records]
    return MergeReport(
        path=target,
        records=len(merged.records),
        candidates=len(merged.candidates),
        sources=tuple(_source(library, every, kept) for library in libraries),
        recipes={name: recipes.count(name) for name in sorted(set(recipes))},
        feeders=tuple(sorted({recipe.experiment.name for recipe in merged.recipes})),
        differing=tuple(sorted(group[0].row.seed for group in groups if _differ(group))),
    )


def _by_scenario(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Entries with one scenario each; a candidate that failed before it was drawn is known by its seed and recipe."""
    listed = list(entries)
    digests: dict[SeedAndRecipe, str] = {e.key: e.row.scenario_digest for e in listed if e.row.scenario_digest}
    groups: dict[object, list[Entry]] = {}
    for entry in listed:
        groups.setdefault(digests.get(entry.key, entry.key), []).append(entry)
    return list(groups.values())


def _preference(entry: Entry) -> tuple[bool, bool, bool, bool, str]:
    """Lowest for the candidate that stays; the last part decides where nothing else does, the same in any order."""
    row = entry.row
    proof = {} if entry.record is None else asdict(proof_of(entry.record))
    return (
        not row.accepted,
        not row.ofo_ran,
        row.failure is not None,
        row.engine != "reference",
        canonical_json([asdict(row), proof]),
    )


def _differ(group: list[Entry]) -> bool:
    accepted = [proof_of(entry.record) for entry in group if entry.record is not None]
    return len({(proof.baseline_digest, proof.ofo_digest) for proof in accepted}) > 1


def _source(library: ScenarioLibrary, every: list[Entry], kept: list[Entry]) -> Source:
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
