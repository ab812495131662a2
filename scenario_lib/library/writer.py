"""Write the files of a library into an empty directory."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from scenario_lib._arrays import Floats
from scenario_lib._files import canonical_json, file_digest, write_json
from scenario_lib.library.candidates import CandidateRow, write_candidates, write_table
from scenario_lib.library.layout import CANDIDATES, DIGESTED, DIGESTS, FORMAT_VERSION, METADATA, RESOLVED, TRACES
from scenario_lib.library.metadata import CONFIG_BANDS, config_of
from scenario_lib.library.npz_store import write_traces
from scenario_lib.library.recipe import Recipe, StratumEntry
from scenario_lib.library.record import ScenarioRecord, digests_of
from scenario_lib.library.resolved_numbers import RESOLVED_SCHEMA


@dataclass(frozen=True, slots=True)
class NewLibrary:
    """Everything that goes into a library's files, traces apart.

    Attributes:
        recipes: All recipes that records name.
        records: With their digests; where their traces are is not asked.
        resolved: All numbers of the scenario of each record.
        screening: The criteria of the screening, by name.
        versions: Versions of what the figures depend on.
        reproducible: False if a row was decided by something that need not happen again, such as a timeout.
        strata: What each recipe's candidates were screened by, where one `screening` cannot say it for all.
    """

    recipes: tuple[Recipe, ...]
    records: tuple[ScenarioRecord, ...]
    resolved: tuple[dict[str, Any], ...]
    candidates: list[CandidateRow]
    screening: dict[str, float]
    versions: dict[str, str]
    reproducible: bool
    strata: tuple[StratumEntry, ...] = ()


def write_library(folder: Path, library: NewLibrary, traces: Iterable[tuple[Floats, Floats]]) -> None:
    """Write all files but the build log.

    Args:
        folder: An existing directory.
        library: The contents.
        traces: The (baseline, OFO) penalty traces of the records, in their order.
    """
    write_traces(folder / TRACES, traces)
    write_candidates(folder / CANDIDATES, library.candidates)
    _write_resolved(folder / RESOLVED, library)
    write_json(folder / METADATA, _metadata(library))
    write_digests(folder)


def write_digests(folder: Path, names: Iterable[str] = DIGESTED) -> None:
    """Write the digests of all files that are equal whenever inputs and versions are."""
    write_json(
        folder / DIGESTS,
        {"format_version": FORMAT_VERSION, "sha256": {name: file_digest(folder / name) for name in names}},
    )


def _write_resolved(path: Path, library: NewLibrary) -> None:
    rows = [
        {
            "seed": record.seed,
            "recipe": digests_of(record).recipe,
            "scenario_digest": digests_of(record).scenario_digest,
            "resolved": canonical_json(resolved),
        }
        for record, resolved in zip(library.records, library.resolved, strict=True)
    ]
    write_table(path, pa.Table.from_pylist(rows, schema=RESOLVED_SCHEMA))


def _metadata(library: NewLibrary) -> dict[str, Any]:
    bands = {name: library.screening[name] for name in CONFIG_BANDS}
    if len(library.recipes) == 1:
        config = config_of(library.recipes[0], len(library.candidates), bands)
    else:
        # Without the settings openg2g's loader stops, where it would otherwise replay every record with one recipe.
        config = {"n_candidates": len(library.candidates), **bands}
    return {
        "config": config,
        "format_version": FORMAT_VERSION,
        "reproducible": library.reproducible,
        "versions": library.versions,
        "screening": library.screening,
        **({"strata": [asdict(stratum) for stratum in library.strata]} if library.strata else {}),
        "recipes": {recipe.id: recipe.to_dict() for recipe in library.recipes},
        "proofs": [asdict(digests_of(record)) for record in library.records],
        "scenarios": [record.contract() for record in library.records],
    }
