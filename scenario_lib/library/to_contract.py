"""Write a sharded library as the contract's two files."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from scenario_lib.library.contents import LibraryContents
from scenario_lib.library.files import METADATA, RESOLVED, TRACES, read_json, write_json
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.resolved import RESOLVED_SCHEMA, require_proven
from scenario_lib.library.store_layout import RECORDS_PER_SHARD, STORE
from scenario_lib.library.stored_records import StoredRecords
from scenario_lib.library.tables import write_table
from scenario_lib.library.traces import write_traces
from scenario_lib.library.writer import write_digests

PER_RECORD = ("proofs", "scenarios")
"""Keys of the contract's metadata that have an entry a record, in the order in which they are written."""


def contract_metadata(rest: dict[str, Any], records: Sequence[ScenarioRecord]) -> dict[str, Any]:
    """The contract's metadata, their entries made as they are written.

    Args:
        rest: All keys that do not grow with the number of records.
        records: Records that have proofs.
    """
    entries = ((asdict(record.proof) for record in records if record.proof), (r.contract() for r in records))
    return {**rest, **dict(zip(PER_RECORD, entries, strict=True))}


def write_contract(source: Path, contents: LibraryContents, folder: Path) -> None:
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
    write_json(folder / METADATA, contract_metadata(rest, records))
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
    return {"seed": record.seed, "recipe": None if record.proof is None else record.proof.recipe, **row}
