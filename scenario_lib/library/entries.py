"""The entries of a library's metadata, one a record, checked before they become records."""

from typing import Any

from scenario_lib.errors import InvalidSettingError, LibraryError
from scenario_lib.feeders.checks import refuse, require_count, require_finite
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import CONTRACT_FIELDS, RecordProof, ScenarioRecord
from scenario_lib.library.traces import TraceFile

FIGURES = CONTRACT_FIELDS[1:3] + CONTRACT_FIELDS[4:9] + CONTRACT_FIELDS[11:13]


def parse_records(
    metadata: dict[str, Any], recipes: dict[str, Recipe], traces: TraceFile, source: str
) -> tuple[ScenarioRecord, ...]:
    """The records of a library.

    Raises:
        LibraryError: An entry is not what it should be; the message names the source, the entry and the field.
        KeyError, TypeError, ValueError: There are no lists of entries, or not equally many.
    """
    entries = metadata["scenarios"]
    proofs = metadata["proofs"] if recipes.keys() != {""} else [None] * len(entries)
    if not isinstance(entries, list) or not isinstance(proofs, list):
        raise TypeError("scenarios and proofs: expected lists")
    seen: set[tuple[str, int]] = set()
    records = []
    for index, (entry, proof) in enumerate(zip(entries, proofs, strict=True)):
        place = f"{source}: scenarios[{index}]"
        check_entry(entry, place)
        parsed = None if proof is None else _parse_proof(proof, f"{source}: proofs[{index}]")
        if parsed is not None:
            if parsed.recipe not in recipes:
                raise LibraryError(f"{place} names recipe {parsed.recipe!r}, which is not there")
            if (parsed.recipe, entry["seed"]) in seen:
                raise LibraryError(f"{place}: seed {entry['seed']} is there twice")
            seen.add((parsed.recipe, entry["seed"]))
        records.append(ScenarioRecord(**entry, index=index, proof=parsed, traces=traces))
    return tuple(records)


def _parse_proof(proof: dict[str, Any], place: str) -> RecordProof:
    parsed = RecordProof(**proof)
    for name, value in proof.items():
        if not isinstance(value, str):
            raise LibraryError(f"{place}: {name} is {value!r}; expected a text")
    return parsed


def check_entry(entry: Any, place: str) -> None:
    """Refuse fields of a record that make no sense.

    Raises:
        LibraryError: Naming the place and the field.
    """
    if not isinstance(entry, dict):
        raise LibraryError(f"{place}: is {entry!r}; expected the fields of a record")
    if entry.keys() != set(CONTRACT_FIELDS):
        odd = ", ".join(sorted(set(entry) ^ set(CONTRACT_FIELDS)))
        raise LibraryError(f"{place}: fields missing or not known: {odd}")
    try:
        _check_values(entry)
    except InvalidSettingError as error:
        raise LibraryError(f"{place}: {error}") from None


def _check_values(entry: dict[str, Any]) -> None:
    require_count("seed", entry["seed"], 0)
    for name in FIGURES:
        require_finite(name, entry[name])
    start, end = entry["t_control_start"], entry["t_control_end"]
    require_count("t_control_start", start, 0)
    require_count("t_control_end", end, 0)
    if not start < end <= DURATION_S:
        raise refuse("control window", f"{start} to {end} s", f"a part of the {DURATION_S} s")
    if not isinstance(entry["training_overlay"], dict | None):
        raise refuse("training_overlay", entry["training_overlay"], "an overlay or null")
