"""Arrow files of one uncompressed record batch: written once, mapped into memory, and trusted only after checks.

Any Arrow reader opens them. Here they are read in place: pages are shared by all processes that read one file, and a
row costs what the row holds. Nothing a file claims is allocated or followed before it was compared with the file.
"""

import hashlib
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scenario_lib.errors import LibraryError
from scenario_lib.feeders.regular_files import open_regular
from scenario_lib.library.files import replacing, unreadable

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
