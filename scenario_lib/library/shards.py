"""Arrow files of one uncompressed record batch: written once, mapped into memory, and trusted only after checks.

Any Arrow reader opens them. Here they are read in place: pages are shared by all processes that read one file, and a
row costs what the row holds. Nothing a file claims is allocated or followed before it was compared with the file.

Shards of a sharded library: penalty traces and resolved numbers of consecutive records, mapped when needed.

Most penalties are zero, so a trace is kept as the seconds at which it is not, with the values there: about a fifth of
the bytes, exact, and readable in place. Every row is proven by the digests of its record when it is read.
"""

import hashlib
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scenario_lib._arrays import Floats
from scenario_lib._files import open_regular, replacing, unreadable
from scenario_lib.errors import LibraryError
from scenario_lib.library.layout import StoreLayout
from scenario_lib.library.npz_store import FileIdentity, trace_digest, unless_replaced

_NUMPY_TYPES = {pa.float64(): "<f8", pa.int64(): "<i8", pa.uint16(): "<u2"}
_MAGIC = b"ARROW1\0\0"

# Where the header of a message says that its buffers are compressed: fields of the tables `Message` and `RecordBatch`
# in the Arrow columnar format, version 5 (https://arrow.apache.org/docs/format/Columnar.html).
_HEADER_FIELD, _COMPRESSION_FIELD = 2, 3


def write_batch(path: Path, batch: pa.RecordBatch) -> None:
    """Write one batch; equal rows are equal bytes for one version of pyarrow."""
    options = pa.ipc.IpcWriteOptions(compression=None, unify_dictionaries=False)
    with replacing(path) as stream, pa.ipc.new_file(stream, batch.schema, options=options) as writer:
        writer.write_batch(batch)


def map_file(path: Path) -> pa.Buffer:
    """A file's bytes, mapped: the file that is there now, whatever takes its name later.

    Raises:
        LibraryError: Missing, empty, or not a file.
    """
    try:
        with open_regular(path) as stream, pa.memory_map(_name_of(stream, path)) as file:
            return file.read_buffer()
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None


def _name_of(stream: BinaryIO, path: Path) -> str:
    """A name under which the file that was checked is opened again, whatever has its path by now."""
    name = f"/dev/fd/{stream.fileno()}"
    return name if os.path.exists(name) else str(path)  # noqa: PTH110 - as plain as it is


def buffer_digest(buffer: pa.Buffer) -> str:
    """SHA-256 of bytes that are mapped already, so that what was compared is what is read."""
    return hashlib.sha256(buffer).hexdigest()


def parse_batch(buffer: pa.Buffer, schema: pa.Schema, source: str) -> pa.RecordBatch:
    """The one batch of a file, with no copy of its columns.

    Offsets and lengths are checked, so that reading any row afterwards stays within the file.

    Raises:
        LibraryError: Not such a file, damaged, compressed, of another schema, or null where nothing may be missing;
            the message names the source.
    """
    try:
        return _parse(buffer, schema)
    except Exception as error:  # noqa: BLE001 - pyarrow has many errors of its own, and raises builtins too
        raise LibraryError(f"{source}: cannot be read ({_one_line(error)}); the library is damaged") from None


def numbers_of(column: pa.Array) -> NDArray[Any]:
    """Numbers without nulls as a view of the file; `to_numpy` would load pandas to do it."""
    kind = np.dtype(_NUMPY_TYPES[column.type])
    if not len(column):
        return np.empty(0, kind)
    return np.frombuffer(column.buffers()[1], kind, count=len(column), offset=column.offset * kind.itemsize)


def _parse(buffer: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    if buffer.slice(0, len(_MAGIC)).to_pybytes() != _MAGIC:
        raise ValueError("not an Arrow file")
    stream = pa.BufferReader(buffer)
    stream.seek(len(_MAGIC))
    found = pa.ipc.read_schema(pa.ipc.read_message(stream))
    if not found.equals(schema, check_metadata=True):
        raise ValueError(f"its columns are {', '.join(map(str, found))}; expected {', '.join(map(str, schema))}")
    message = pa.ipc.read_message(stream)
    if message.type != "record batch":
        raise ValueError(f"found a {message.type}; expected one record batch")
    if _is_compressed(message.metadata.to_pybytes()):
        raise ValueError("its buffers are compressed, which this format never does")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    for field, column in zip(schema, batch.columns, strict=True):
        _require_no_nulls(field, column)
    return batch


def _require_no_nulls(field: pa.Field, column: pa.Array) -> None:
    if not field.nullable and column.null_count:
        raise ValueError(f"column {field.name} has {column.null_count} nulls")
    if pa.types.is_list(field.type):
        _require_no_nulls(field.type.value_field, column.values)


def _is_compressed(message: bytes) -> bool:
    """Whether buffers would have to be unpacked, to sizes that only the file vouches for."""
    header = _field(message, _follow(message, 0), _HEADER_FIELD)
    return header is None or _field(message, _follow(message, header), _COMPRESSION_FIELD) is not None


def _field(message: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table begins; None if the table leaves it out."""
    (back,) = struct.unpack_from("<i", message, table)
    (size,) = struct.unpack_from("<H", message, table - back)
    entry = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", message, table - back + entry) if entry < size else (0,)
    return table + offset if offset else None


def _follow(message: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", message, place)[0])


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


LONGEST_TRACE_S = 2**16
"""Seconds are kept in 16 bits; an hour is 3600."""

# What a process has mapped at a time counts as its memory once it was read.
_MOST_MAPPED = 16


def _list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", kind, nullable=False))


# The resolved numbers are text, kept as bytes: a text would be looked through whenever a shard is mapped.
SHARD_SCHEMA = pa.schema(
    [
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("ofo_length", pa.int32(), nullable=False),
        pa.field("ofo_seconds", _list_of(pa.uint16()), nullable=False),
        pa.field("ofo_values", _list_of(pa.float64()), nullable=False),
        pa.field("baseline_length", pa.int32(), nullable=False),
        pa.field("baseline_seconds", _list_of(pa.uint16()), nullable=False),
        pa.field("baseline_values", _list_of(pa.float64()), nullable=False),
        pa.field("scenario_digest", pa.string(), nullable=False),
        pa.field("resolved", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class ShardRow:
    """What a shard holds of one record.

    Attributes:
        baseline, ofo: Penalties (pu^2) at every second, shape (T,).
        scenario_digest: SHA-256 of `resolved`.
        resolved: Canonical JSON of all numbers of the scenario.
    """

    seed: int
    baseline: Floats
    ofo: Floats
    scenario_digest: str
    resolved: str


def write_shard(path: Path, rows: Iterable[ShardRow]) -> None:
    """Write one shard; no trace may be longer than `LONGEST_TRACE_S`."""
    write_batch(path, pa.RecordBatch.from_pylist([_columns(row) for row in rows], schema=SHARD_SCHEMA))


def _columns(row: ShardRow) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "seed": row.seed,
        "scenario_digest": row.scenario_digest,
        "resolved": row.resolved.encode(),
    }
    for which, trace in (("ofo", row.ofo), ("baseline", row.baseline)):
        # By their bits, so that -0.0 comes back too.
        seconds = np.flatnonzero(np.ascontiguousarray(trace, dtype="<f8").view(np.uint64))
        columns[f"{which}_length"] = len(trace)
        columns[f"{which}_seconds"] = seconds.astype(np.uint16)
        columns[f"{which}_values"] = trace[seconds]
    return columns


class ShardFiles:
    """Reader of all shards of one library; maps a shard when a row of it is asked for, and again in each process.

    Args:
        folder: The library's directory.
        layout: How its records are spread over shards.
        opened_as: Of the library; see `unless_replaced`.
    """

    def __init__(self, folder: Path, layout: StoreLayout, opened_as: FileIdentity = None) -> None:
        self.folder = folder
        self._layout = layout
        self._opened_as = opened_as
        self._mapped = lru_cache(maxsize=_MOST_MAPPED)(_map_shard)

    def read(self, name: str, digest: str | None) -> Floats:
        """A trace by its name in the contract (`ofo_<i>` or `baseline_<i>`), shape (T,), compared with its digest.

        Raises:
            LibraryError: The shard is missing or damaged, or the trace is not the one that was screened.
        """
        which, _, index = name.rpartition("_")
        with unless_replaced(self.folder, self._opened_as):
            shard, row = self._locate(int(index))
            trace = shard.trace(which, row)
            if digest is not None and trace_digest(trace) != digest:
                raise LibraryError(
                    f"{shard.path}: trace {name} is not the one that was screened; the library changed since it was "
                    f"opened, or was edited. Open it again, or validate it"
                )
            return trace

    def path_of(self, index: int) -> Path:
        """The shard that holds a record."""
        return self.folder / self._layout.shard_of(index)

    def numbers_row(self, index: int) -> dict[str, Any]:
        """Scenario digest and resolved numbers (canonical JSON) of a record, compared with nothing.

        Raises:
            LibraryError: The shard is missing or damaged.
        """
        with unless_replaced(self.folder, self._opened_as):
            shard, row = self._locate(index)
        digest, text = (shard.batch.column(name)[row].as_py() for name in ("scenario_digest", "resolved"))
        try:
            return {"scenario_digest": digest, "resolved": text.decode()}
        except UnicodeDecodeError:
            raise LibraryError(f"{shard.path}: the numbers in row {row} are not a text; it is damaged") from None

    def _locate(self, index: int) -> "tuple[_Shard, int]":
        number, row = divmod(index, self._layout.records_per_shard)
        return self._mapped(self.path_of(index), self._layout.shard_records(number)), row

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardFiles, (self.folder, self._layout, self._opened_as)


@dataclass(frozen=True, slots=True)
class _Shard:
    """One mapped shard."""

    path: Path
    batch: pa.RecordBatch

    def trace(self, which: str, row: int) -> Floats:
        """A trace, with its zeros, compared with nothing."""
        length = self.batch.column(f"{which}_length")[row].as_py()
        seconds, values = self._list(f"{which}_seconds", row), self._list(f"{which}_values", row)
        if not 0 <= length <= LONGEST_TRACE_S or len(seconds) != len(values) or np.any(seconds >= length):
            raise LibraryError(f"{self.path}: the {which} trace in row {row} makes no sense; the library is damaged")
        trace = np.zeros(length)
        trace[seconds] = values
        trace.flags.writeable = False
        return trace

    def _list(self, name: str, row: int) -> NDArray[Any]:
        return numbers_of(self.batch.column(name)[row].values)


def _map_shard(path: Path, n_rows: int) -> _Shard:
    batch = parse_batch(map_file(path), SHARD_SCHEMA, str(path))
    if batch.num_rows != n_rows:
        raise LibraryError(f"{path}: has {batch.num_rows} rows, expected {n_rows}; the library is damaged")
    return _Shard(path, batch)
