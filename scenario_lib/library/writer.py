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
from scenario_lib.library.recipe import Recipe, Stratum
from scenario_lib.library.record import RecordDigests, RecordFields
from scenario_lib.library.resolved_numbers import RESOLVED_SCHEMA


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record about to be written.

    Attributes:
        resolved: All numbers of its scenario.
    """

    fields: RecordFields
    digests: RecordDigests
    resolved: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewLibrary:
    """Everything that goes into a library's files, traces apart.

    Attributes:
        recipes: All recipes that records name.
        screening: The criteria of the screening, by name.
        versions: Versions of what the figures depend on.
        reproducible: False if a row was decided by something that need not happen again, such as a timeout.
        strata: What each recipe's candidates were screened by, where one `screening` cannot say it for all.
    """

    recipes: tuple[Recipe, ...]
    records: tuple[NewRecord, ...]
    candidates: list[CandidateRow]
    screening: dict[str, float]
    versions: dict[str, str]
    reproducible: bool
    strata: tuple[Stratum, ...] = ()


def write_library(folder: Path, library: NewLibrary, traces: Iterable[tuple[Floats, Floats]]) -> None:
    """Write all files but the build log.

    Args:
        folder: An existing directory.
        library: The contents.
        traces: The (baseline, OFO) penalty traces of the records, in their order.
    """
    write_traces(folder / TRACES, traces)
    write_candidates(folder / CANDIDATES, library.candidates)
    _write_resolved(folder / RESOLVED, library.records)
    write_json(folder / METADATA, _metadata(library))
    write_digests(folder)


def write_digests(folder: Path, names: Iterable[str] = DIGESTED) -> None:
    """Write the digests of all files that are equal whenever inputs and versions are."""
    write_json(
        folder / DIGESTS,
        {"format_version": FORMAT_VERSION, "sha256": {name: file_digest(folder / name) for name in names}},
    )


def _write_resolved(path: Path, records: tuple[NewRecord, ...]) -> None:
    rows = [
        {
            "seed": record.fields.seed,
            "recipe": record.digests.recipe,
            "scenario_digest": record.digests.scenario_digest,
            "resolved": canonical_json(record.resolved),
        }
        for record in records
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
        "proofs": [asdict(record.digests) for record in library.records],
        "scenarios": [asdict(record.fields) for record in library.records],
    }
