"""Write a library of the contract's two files as a sharded one."""

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from scenario_lib.errors import LibraryError
from scenario_lib.library.contents import LibraryContents
from scenario_lib.library.files import METADATA, RESOLVED, TRACES, json_lines, read_json, write_json
from scenario_lib.library.resolved import RESOLVED_SCHEMA, require_proven
from scenario_lib.library.shards import LONGEST_TRACE_S, ShardRow, write_shard
from scenario_lib.library.store_layout import (
    RECORDS,
    RECORDS_PER_SHARD,
    STORE,
    STORE_FORMAT_VERSION,
    StoreLayout,
    shard_name,
)
from scenario_lib.library.stored_records import write_records
from scenario_lib.library.tables import read_table
from scenario_lib.library.to_contract import PER_RECORD, contract_metadata
from scenario_lib.library.trace_archive import TraceArchiveDigest
from scenario_lib.library.writer import write_digests


def write_sharded(source: Path, contents: LibraryContents, folder: Path) -> None:
    """Write all files but the candidates table and the build log into an existing directory.

    Raises:
        LibraryError: The source is damaged, or holds what would not come back with equal bytes.
    """
    metadata = read_json(source / METADATA)
    rest = {name: value for name, value in metadata.items() if name not in PER_RECORD}
    _require_equal(source / METADATA, _text_digest(contract_metadata(rest, contents.records)), contents)
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
