"""Parse a library's metadata, and refuse what is damaged, edited or newer than this version."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenario_lib.errors import LibraryError, UnknownNameError
from scenario_lib.feeders.canonical import file_digest
from scenario_lib.library.config import recipe_from_config
from scenario_lib.library.files import DIGESTS, FORMAT_VERSION, METADATA, TRACES, read_json
from scenario_lib.library.recipe import Recipe, recipe_from_dict
from scenario_lib.library.record import CONTRACT_FIELDS, RecordProof, ScenarioRecord
from scenario_lib.library.traces import TraceFile


@dataclass(frozen=True, slots=True)
class LibraryContents:
    """What `metadata.json` says, parsed.

    Attributes:
        config: The contract's `config`, as found.
        recipes: By identifier; a library without our keys has one, under "".
        digests: SHA-256 of the other files; empty for a library without our keys.
    """

    config: dict[str, Any]
    records: tuple[ScenarioRecord, ...]
    recipes: dict[str, Recipe]
    screening: dict[str, float]
    versions: dict[str, str]
    reproducible: bool
    digests: dict[str, str]


def read_contents(path: Path) -> LibraryContents:
    """Parse a library's metadata; traces and tables stay on disk. An empty library is allowed here.

    Raises:
        LibraryError: Not a library, damaged, edited, or of a newer format; the message names the file.
    """
    if not path.is_dir():
        raise LibraryError(f"{path}: no such directory; give the path of a library")
    metadata = read_json(path / METADATA)
    source = str(path / METADATA)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("config"), dict):
        raise LibraryError(f"{source}: has no config; expected the metadata of a scenario library")
    ours = "format_version" in metadata
    if ours and metadata["format_version"] != FORMAT_VERSION:
        raise LibraryError(
            f"{source}: has format version {metadata['format_version']!r}, this version of scenario-lib reads "
            f"{FORMAT_VERSION}; use the version that wrote it, or build it again"
        )
    digests = _read_digests(path) if ours else {}
    try:
        recipes = _recipes(metadata, source)
        records = _records(metadata, TraceFile(path / TRACES), recipes, source)
        return LibraryContents(
            config=metadata["config"],
            records=records,
            recipes=recipes,
            screening=dict(metadata.get("screening", {})),
            versions=dict(metadata.get("versions", {})),
            reproducible=bool(metadata.get("reproducible", True)),
            digests=digests,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, LibraryError | UnknownNameError):
            raise
        raise LibraryError(f"{source}: not what a library holds ({error}); it was damaged or edited") from None


def _read_digests(path: Path) -> dict[str, str]:
    digests = read_json(path / DIGESTS)
    found = digests.get("sha256") if isinstance(digests, dict) else None
    if not isinstance(found, dict) or METADATA not in found:
        raise LibraryError(f"{path / DIGESTS}: not the digests of a library; it was damaged or edited")
    if file_digest(path / METADATA) != found[METADATA]:
        raise LibraryError(
            f"{path / METADATA}: is not the file that was written with this library (its digest differs from "
            f"{DIGESTS}); restore it, or build the library again"
        )
    return found


def _recipes(metadata: dict[str, Any], source: str) -> dict[str, Recipe]:
    if "recipes" not in metadata:
        return {"": recipe_from_config(metadata["config"], source)}
    return {name: recipe_from_dict(tables, source) for name, tables in metadata["recipes"].items()}


def _records(
    metadata: dict[str, Any], traces: TraceFile, recipes: dict[str, Recipe], source: str
) -> tuple[ScenarioRecord, ...]:
    entries = metadata["scenarios"]
    proofs = [RecordProof(**proof) for proof in metadata["proofs"]] if "proofs" in metadata else [None] * len(entries)
    records = []
    for index, (entry, proof) in enumerate(zip(entries, proofs, strict=True)):
        _check_entry(entry, f"{source}: scenarios[{index}]")
        if proof is not None and proof.recipe not in recipes:
            raise LibraryError(f"{source}: scenarios[{index}] names recipe {proof.recipe!r}, which is not there")
        records.append(ScenarioRecord(**entry, index=index, proof=proof, traces=traces))
    return tuple(records)


def _check_entry(entry: Any, place: str) -> None:
    if not isinstance(entry, dict):
        raise LibraryError(f"{place}: is {entry!r}; expected the fields of a record")
    if set(entry) != set(CONTRACT_FIELDS):
        odd = ", ".join(sorted(set(entry) ^ set(CONTRACT_FIELDS)))
        raise LibraryError(f"{place}: fields missing or not known: {odd}")
    seed = entry["seed"]
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise LibraryError(f"{place}: seed is {seed!r}; expected a whole number of at least 0")
    for name in ("t_control_start", "t_control_end"):
        if not isinstance(entry[name], int):
            raise LibraryError(f"{place}: {name} is {entry[name]!r}; expected whole seconds")
    for name in CONTRACT_FIELDS[1:3] + CONTRACT_FIELDS[4:9] + CONTRACT_FIELDS[11:13]:
        if isinstance(entry[name], bool) or not isinstance(entry[name], int | float):
            raise LibraryError(f"{place}: {name} is {entry[name]!r}; expected a number")
