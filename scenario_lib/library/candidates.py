"""Parquet files of a library: written so that equal tables are equal bytes, read so that hostile ones stay small.

The candidates table: one row per candidate, accepted or not, with the reason; Parquet.

The first columns are those of openg2g's example. A figure that was not measured, because a rollout did not run, is
null.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, get_args, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scenario_lib._files import open_regular, replacing, unreadable
from scenario_lib.errors import LibraryError

_ROW_GROUP_ROWS = 65_536

# Each row has a seed (8 bytes) that only a few recipes share, and texts that repeat are short beside its figures.
_LEAST_BYTES_PER_ROW = 2
_MOST_TEXT_PER_BYTE = 16


def write_table(path: Path, table: pa.Table) -> None:
    """Parquet without compression, whose bytes would depend on the compressor at hand."""
    with replacing(path) as stream:
        pq.write_table(table, stream, compression="NONE", row_group_size=_ROW_GROUP_ROWS)


def read_table(path: Path, schema: pa.Schema, stream: BinaryIO | None = None) -> pa.Table:
    """A Parquet file of a known schema.

    Args:
        path: The file, named in errors.
        schema: Its columns.
        stream: The file, already open, where its content was compared before; None opens it.

    Raises:
        LibraryError: Missing, damaged, of another schema, or one that is far larger in memory than on disk.
    """
    if stream is None:
        with _opened(path) as opened:
            return read_table(path, schema, opened)
    try:
        file = pq.ParquetFile(stream)
        fault = _fault(file, schema, path.stat().st_size)
        return _read(path, schema, stream) if fault is None else _refuse(path, fault)
    except LibraryError:
        raise
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:  # names that are not UTF-8 are ValueErrors
        raise unreadable(path, error) from None


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise unreadable(path, error) from None


def _fault(file: pq.ParquetFile, schema: pa.Schema, size: int) -> str | None:
    """What the file's own description has that ours never have."""
    facts: Any = file.metadata
    if not file.schema_arrow.equals(schema):
        return f"has columns {file.schema_arrow.names}; expected {schema.names}"
    if facts.num_rows * _LEAST_BYTES_PER_ROW > size:
        return f"claims {facts.num_rows} rows in {size} bytes; the library is damaged"
    # Not asked of the columns: pyarrow ends the process where what a file says of a column makes no sense.
    expanded = sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
    if expanded > size:
        return f"claims {expanded} bytes in {size}; scenario-lib writes its tables uncompressed"
    return None


def _read(path: Path, schema: pa.Schema, stream: BinaryIO) -> pa.Table:
    """The table, by way of dictionaries: a text that repeats is expanded only when its size is known."""
    texts = [field.name for field in schema if field.type == pa.string()]
    table = pq.read_table(stream, use_threads=False, read_dictionary=texts)
    expanded = sum(_text_bytes(chunk) for name in texts for chunk in table.column(name).chunks)
    if expanded > _MOST_TEXT_PER_BYTE * path.stat().st_size:
        _refuse(path, f"holds {expanded} bytes of repeated text; the library is damaged")
    table = table.cast(schema)
    table.validate(full=True)  # texts that are not UTF-8 would raise only where they are looked at
    return table


def _text_bytes(chunk: pa.DictionaryArray) -> int:
    return pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0


def _refuse(path: Path, fault: str) -> pa.Table:
    raise LibraryError(f"{path}: {fault}")


_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One candidate.

    Attributes:
        baseline_integral, ofo_integral: Integral violation (pu s).
        bl_undervoltage_time_s and so on: Seconds with any bus-phase below or above its limit.
        recovery_frac: Part of the baseline's integral that OFO removes.
        reason: Why it was accepted, rejected or failed; a value of `screening.criteria.Reason`.
        kind: Which limit the baseline breaks: "under", "over", "mixed"; null without a violation.
        ofo_ran: Whether the OFO rollout was simulated.
        ofo_always_min: Whether OFO kept every model at its smallest batch after 10 s.
        *_margin: Distance to each threshold, negative where it is missed.
        t_control_start, t_control_end: Window around the baseline's violations (s).
        failed_stage, failed_step, failure: Where a candidate failed, at which second, and the message.
    """

    seed: int
    pv_scale: float | None
    load_scale: float | None
    baseline_integral: float | None
    ofo_integral: float | None
    baseline_violation_time_s: float | None
    ofo_violation_time_s: float | None
    bl_undervoltage_time_s: float | None
    bl_overvoltage_time_s: float | None
    ofo_undervoltage_time_s: float | None
    ofo_overvoltage_time_s: float | None
    recovery_frac: float | None
    accepted: bool
    reason: str
    kind: str | None
    ofo_ran: bool
    ofo_always_min: bool | None
    baseline_worst_v_min_pu: float | None
    baseline_worst_v_max_pu: float | None
    ofo_worst_v_min_pu: float | None
    ofo_worst_v_max_pu: float | None
    baseline_floor_margin: float | None
    baseline_ceiling_margin: float | None
    recovery_floor_margin: float | None
    recovery_ceiling_margin: float | None
    t_control_start: int | None
    t_control_end: int | None
    failed_stage: str | None
    failed_step: int | None
    failure: str | None
    scenario_digest: str | None
    recipe: str
    engine: str


def _schema() -> pa.Schema:
    hints = get_type_hints(CandidateRow)
    columns = []
    for field in fields(CandidateRow):
        kinds = [kind for kind in get_args(hints[field.name]) or (hints[field.name],) if kind is not NoneType]
        columns.append(pa.field(field.name, _ARROW_TYPES[kinds[0]]))
    return pa.schema(columns)


CANDIDATES_SCHEMA = _schema()


def write_candidates(path: Path, rows: list[CandidateRow]) -> None:
    """Write the table; equal rows are equal bytes for one version of pyarrow."""
    write_table(path, pa.Table.from_pylist([asdict(row) for row in rows], schema=CANDIDATES_SCHEMA))


def read_candidates(path: Path, stream: BinaryIO | None = None) -> pa.Table:
    """The candidates table; see `read_table`.

    Raises:
        LibraryError: Missing or damaged.
    """
    return read_table(path, CANDIDATES_SCHEMA, stream)
