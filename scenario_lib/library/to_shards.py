"""Write a library of the contract's two files as a sharded one."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenario_lib.errors import LibraryError
from scenario_lib.library.contents import LibraryContents
from scenario_lib.library.files import METADATA, RESOLVED, TRACES, json_lines, read_json, write_json
from scenario_lib.library.record import ScenarioRecord
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
from scenario_lib.library.to_contract import PER_RECORD, contract_metadata
from scenario_lib.library.trace_archive import TraceArchiveDigest
from scenario_lib.library.writer import RESOLVED_SCHEMA, write_digests


def write_sharded(source: Path, contents: LibraryContents, folder: Path) -> None:
    """Write all files but the candidates table and the build log into an existing directory.

    Raises:
        LibraryError: The source is damaged, or holds what would not come back with equal bytes.
    """
    contents.require_unchanged(source / RESOLVED)
    metadata = read_json(source / METADATA)
    rest = {name: value for name, value in metadata.items() if name not in PER_RECORD}
    _require_equal(source / METADATA, _text_digest(contract_metadata(rest, contents.records)), contents)
    del metadata
    traces = _write_shards(source, contents.records, folder)
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


def _write_shards(source: Path, records: Sequence[ScenarioRecord], folder: Path) -> str:
    """Write all shards, each record read once; returns the digest that the traces have as one archive."""
    with TraceArchiveDigest() as archive:
        rows = _rows(source, records, archive)
        for number in range(-(-len(records) // RECORDS_PER_SHARD)):
            write_shard(folder / shard_name(number), islice(rows, RECORDS_PER_SHARD))
    return archive.hexdigest()


def _rows(source: Path, records: Sequence[ScenarioRecord], archive: TraceArchiveDigest) -> Iterator[ShardRow]:
    for record, resolved in zip(records, _resolved(source / RESOLVED, records), strict=True):
        baseline, ofo = record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step
        if max(len(baseline), len(ofo)) > LONGEST_TRACE_S:
            raise LibraryError(
                f"{source / TRACES}: a trace of seed {record.seed} is longer than {LONGEST_TRACE_S} s, which a shard "
                f"cannot hold; keep the library as it is"
            )
        archive.add(baseline, ofo)
        yield ShardRow(record.seed, baseline, ofo, resolved)


def _resolved(path: Path, records: Sequence[ScenarioRecord]) -> Iterator[str]:
    """The resolved numbers of all records, each compared with the digest of its scenario."""
    for record, row in zip(records, _table_rows(path, len(records)), strict=True):
        expected = "" if record.proof is None else record.proof.scenario_digest
        if row["seed"] != record.seed or hashlib.sha256(row["resolved"].encode()).hexdigest() != expected:
            raise LibraryError(f"{path}: a row is not what seed {record.seed} was screened with; validate the library")
        yield row["resolved"]


def _table_rows(path: Path, n_rows: int) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(RESOLVED_SCHEMA):
                raise LibraryError(f"{path}: has columns {file.schema_arrow.names}; expected {RESOLVED_SCHEMA.names}")
            if file.metadata.num_rows != n_rows:
                raise LibraryError(f"{path}: has {file.metadata.num_rows} rows, expected {n_rows}; it is damaged")
            for batch in file.iter_batches(RECORDS_PER_SHARD, use_threads=False):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise LibraryError(f"{path}: cannot be read ({error}); the library is damaged") from None
