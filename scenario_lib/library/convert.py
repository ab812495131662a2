"""Write a sharded library as the contract's two files.

Write a library of the contract's two files as a sharded one.

From the contract's two files to a sharded library and back, losing nothing: back again, the bytes are equal.
"""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from scenario_lib._files import file_digest, json_lines, open_regular, read_json, write_json
from scenario_lib.errors import InvalidSettingError, IrregularFileError, LibraryError
from scenario_lib.library.arrow_store import StoredRecords, write_records
from scenario_lib.library.candidates import read_table, write_table
from scenario_lib.library.layout import (
    BUILD_LOG,
    CANDIDATES,
    DIGESTS,
    METADATA,
    RECORDS,
    RECORDS_PER_SHARD,
    RESOLVED,
    STORE,
    STORE_FORMAT_VERSION,
    TRACES,
    StoreLayout,
    shard_name,
)
from scenario_lib.library.metadata import LibraryContents, read_contents
from scenario_lib.library.npz_store import TraceArchiveDigest, write_traces
from scenario_lib.library.place import new_library, require_place
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.resolved_numbers import RESOLVED_SCHEMA, require_proven
from scenario_lib.library.shards import LONGEST_TRACE_S, ShardRow, write_shard
from scenario_lib.library.writer import write_digests

_PER_RECORD = ("proofs", "scenarios")
"""Keys of the contract's metadata that have an entry a record, in the order in which they are written."""


def _contract_metadata(rest: dict[str, Any], records: Sequence[ScenarioRecord]) -> dict[str, Any]:
    """The contract's metadata, their entries made as they are written.

    Args:
        rest: All keys that do not grow with the number of records.
        records: Records that have digests.
    """
    entries = ((asdict(record.digests) for record in records if record.digests), (r.contract() for r in records))
    return {**rest, **dict(zip(_PER_RECORD, entries, strict=True))}


def _write_contract(source: Path, contents: LibraryContents, folder: Path) -> None:
    """Write all files but the candidates table and the build log into an existing directory.

    Raises:
        LibraryError: A shard is missing or damaged.
    """
    records = contents.records
    if not isinstance(records, StoredRecords):
        raise TypeError(f"{source} is not a sharded library")
    pairs = ((record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step) for record in records)
    write_traces(folder / TRACES, pairs)
    write_table(folder / RESOLVED, _resolved_table(records))
    rest = {name: value for name, value in read_json(source / METADATA).items() if name != STORE}
    write_json(folder / METADATA, _contract_metadata(rest, records))
    write_digests(folder)


def _resolved_table(records: StoredRecords) -> pa.Table:
    """All resolved numbers in one piece, as the build writes them, so that the Parquet file has equal bytes."""
    batches = list(_resolved_batches(records))
    return pa.Table.from_batches(batches, schema=RESOLVED_SCHEMA).combine_chunks()


def _resolved_batches(records: StoredRecords) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(records), RECORDS_PER_SHARD):
        rows = [_resolved_row(record, records) for record in records[first : first + RECORDS_PER_SHARD]]
        yield pa.RecordBatch.from_pylist(rows, schema=RESOLVED_SCHEMA)


def _resolved_row(record: ScenarioRecord, records: StoredRecords) -> dict[str, Any]:
    row = records.shards.numbers_row(record.index)
    require_proven(row, record, records.shards.path_of(record.index))
    return {"seed": record.seed, "recipe": None if record.digests is None else record.digests.recipe, **row}


def _write_sharded(source: Path, contents: LibraryContents, folder: Path) -> None:
    """Write all files but the candidates table and the build log into an existing directory.

    Raises:
        LibraryError: The source is damaged, or holds what would not come back with equal bytes.
    """
    metadata = read_json(source / METADATA)
    rest = {name: value for name, value in metadata.items() if name not in _PER_RECORD}
    _require_equal(source / METADATA, _text_digest(_contract_metadata(rest, contents.records)), contents)
    del metadata
    traces = _write_shards(source, contents, folder)
    _require_equal(source / TRACES, traces, contents)
    write_records(folder / RECORDS, contents.records)
    names = (METADATA, TRACES, RESOLVED)
    layout = StoreLayout(
        format_version=STORE_FORMAT_VERSION,
        records=len(contents.records),
        records_per_shard=RECORDS_PER_SHARD,
        contract={name: contents.digests[name] for name in names},
    )
    write_json(folder / METADATA, {**rest, STORE: layout.to_dict()})
    write_digests(folder, layout.files())


def _require_equal(path: Path, digest: str, contents: LibraryContents) -> None:
    if digest != contents.digests.get(path.name):
        raise LibraryError(
            f"{path}: would not come back with the bytes that it has: it was not written by this version of "
            f"scenario-lib, or it was edited. Keep the library as it is, or build it again"
        )


def _text_digest(metadata: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for piece in json_lines(metadata):
        digest.update(piece.encode())
    return digest.hexdigest()


def _write_shards(source: Path, contents: LibraryContents, folder: Path) -> str:
    """Write all shards, each record read once; returns the digest that the traces have as one archive."""
    with TraceArchiveDigest() as archive:
        rows = _rows(source, contents, archive)
        for number in range(-(-len(contents.records) // RECORDS_PER_SHARD)):
            write_shard(folder / shard_name(number), islice(rows, RECORDS_PER_SHARD))
    return archive.hexdigest()


def _rows(source: Path, contents: LibraryContents, archive: TraceArchiveDigest) -> Iterator[ShardRow]:
    for record, resolved in zip(contents.records, _resolved(source / RESOLVED, contents), strict=True):
        baseline, ofo = record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step
        if max(len(baseline), len(ofo)) > LONGEST_TRACE_S:
            raise LibraryError(
                f"{source / TRACES}: a trace of seed {record.seed} is longer than {LONGEST_TRACE_S} s, which a shard "
                f"cannot hold; keep the library as it is"
            )
        archive.add(baseline, ofo)
        yield ShardRow(record.seed, baseline, ofo, resolved["scenario_digest"], resolved["resolved"])


def _resolved(path: Path, contents: LibraryContents) -> Iterator[dict[str, Any]]:
    """Rows of resolved numbers, each compared with its record."""
    with contents.unchanged(path) as stream:
        table = read_table(path, RESOLVED_SCHEMA, stream)
    if len(table) != len(contents.records):
        raise LibraryError(f"{path}: has {len(table)} rows, expected {len(contents.records)}; the library is damaged")
    rows = (row for batch in table.to_batches(RECORDS_PER_SHARD) for row in batch.to_pylist())
    for record, row in zip(contents.records, rows, strict=True):
        require_proven(row, record, path)
        yield row


CONTRACT, SHARDED = "contract", "sharded"
STORES = (CONTRACT, SHARDED)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Outcome of a conversion.

    Attributes:
        source_bytes, target_bytes: Sizes on disk, the build log apart.
        notes: What is equal in content but not in bytes, and why.
    """

    source: Path
    target: Path
    store: str
    records: int
    source_bytes: int
    target_bytes: int
    notes: tuple[str, ...]


def _store_of(contents: LibraryContents) -> str:
    """The form that a library is stored in: "contract" or "sharded"."""
    return CONTRACT if contents.layout is None else SHARDED


def convert_library(source: Path, store: str, out: Path, overwrite: bool = False) -> Conversion:
    """Write a library in its other form; the source stays as it is.

    Args:
        source: A library with digests; it may hold no records.
        store: "contract" or "sharded".
        out: Where the new library is put, whole, at the end.
        overwrite: Replace a library that is there.

    Raises:
        InvalidSettingError: The library is stored so already, or there is no such store.
        LibraryError: The library has no digests, is damaged, or holds what would not come back with equal bytes.
        BuildRefusedError: Something is at `out`, or another process writes there.
    """
    source = source.resolve()
    require_place(out, overwrite, [source])
    contents = read_contents(source)
    _require_convertible(source, contents, store)
    with new_library(out, overwrite, [source]) as folder:
        _copy_unchanged(source, contents, folder)
        (_write_sharded if store == SHARDED else _write_contract)(source, contents, folder)
        if (source / BUILD_LOG).is_file():
            _copy(source / BUILD_LOG, folder / BUILD_LOG)
        target_bytes, notes = _size(folder), _notes(folder, contents) if store == CONTRACT else ()
    return Conversion(source, out.resolve(), store, len(contents.records), _size(source), target_bytes, notes)


def _require_convertible(source: Path, contents: LibraryContents, store: str) -> None:
    if store not in STORES:
        raise InvalidSettingError(f"store is {store!r}; expected one of {', '.join(STORES)}")
    if _store_of(contents) == store:
        raise InvalidSettingError(f"{source}: is stored as {store!r} already")
    if not contents.digests:
        raise LibraryError(
            f"{source / METADATA}: has no digests, so nothing would tell whether a conversion is exact; build the "
            f"library with scenario-lib"
        )


def _copy_unchanged(source: Path, contents: LibraryContents, folder: Path) -> None:
    _copy(source / CANDIDATES, folder / CANDIDATES)
    if file_digest(folder / CANDIDATES) != contents.digests.get(CANDIDATES):
        raise LibraryError(f"{source / CANDIDATES}: is not the file that was written with this library; validate it")


def _copy(source: Path, target: Path) -> None:
    try:
        with open_regular(source) as stream, target.open("wb") as copy:
            shutil.copyfileobj(stream, copy)
    except IrregularFileError as error:
        raise LibraryError(str(error)) from None


def _notes(folder: Path, contents: LibraryContents) -> tuple[str, ...]:
    """Refuse files unlike those that were converted; another Parquet writer is allowed, and noted."""
    expected = {} if contents.layout is None else contents.layout.contract
    for name in (METADATA, TRACES):
        if file_digest(folder / name) != expected.get(name):
            raise LibraryError(f"{folder / name}: does not come back with the bytes that it had; validate the library")
    if file_digest(folder / RESOLVED) == expected.get(RESOLVED):
        return ()
    return (f"{RESOLVED} has the same rows in other bytes: another version of pyarrow wrote it; {DIGESTS} agrees",)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != BUILD_LOG)
