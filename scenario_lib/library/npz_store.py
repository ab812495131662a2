"""The penalty traces of a library, in `traces.npz`: stored uncompressed, read one at a time.

Arrays are named `ofo_<i>` and `baseline_<i>`, i counting the records in order; that is openg2g's contract.

The digest that `traces.npz` would have, without writing it: 5.8 GB for 100 000 records.
"""

import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib._files import open_regular, replacing, unreadable
from scenario_lib.errors import LibraryError
from scenario_lib.library.layout import METADATA

# What np.savez writes, so that equal traces are equal bytes whenever they are written.
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)
_LARGEST_TRACE_BYTES = 8 * 100_000


class TraceSource(Protocol):
    """Where a record's traces are read from."""

    def read(self, name: str, digest: str | None) -> Floats:
        """A trace by its name in the contract, shape (T,), compared with its digest if there is one."""
        ...


def trace_digest(trace: Floats) -> str:
    """SHA-256 of a trace's values as little-endian float64."""
    return hashlib.sha256(np.ascontiguousarray(trace, dtype="<f8").tobytes()).hexdigest()


def write_traces(path: Path, pairs: Iterable[tuple[Floats, Floats]]) -> None:
    """Write the (baseline, OFO) penalty traces of all records, one record in memory at a time."""
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for index, (baseline, ofo) in enumerate(pairs):
            _write_pair(archive, index, baseline, ofo)


def _write_pair(archive: zipfile.ZipFile, index: int, baseline: Floats, ofo: Floats) -> None:
    """Add the traces of record `index`."""
    _write_array(archive, f"ofo_{index}", ofo)
    _write_array(archive, f"baseline_{index}", baseline)


def _write_array(archive: zipfile.ZipFile, name: str, trace: Floats) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy", date_time=_FIXED_DATE), "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.ascontiguousarray(trace, dtype="<f8"), allow_pickle=False)


FileIdentity = tuple[int, ...] | None
"""What tells a file or directory from another one that took its place."""


def file_identity(path: Path) -> FileIdentity:
    """Identity of a file or directory; None if it is not there."""
    try:
        return _identity(path.stat())
    except OSError:
        return None


@contextmanager
def unless_replaced(folder: Path, opened_as: FileIdentity) -> Iterator[None]:
    """Around reading from an open library: if another one lies there by now, what fails says that and nothing else.

    Args:
        opened_as: Identity that the library's metadata had when it was opened; None if that is not known.

    Raises:
        LibraryError: As from the block, or the library was replaced.
    """
    try:
        yield
    except LibraryError:
        now = file_identity(folder / METADATA)
        if None in (opened_as, now) or now == opened_as:
            raise
        raise LibraryError(f"{folder}: the library was replaced while open; open it again") from None


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class TraceFile:
    """Reader of one `traces.npz`; opens it when the first trace is asked for, and again in each process.

    Args:
        path: The file.
        expected: Identity that it must have when it is opened, where no digests tell one trace from another.
        opened_as: Of the library; see `unless_replaced`.
    """

    def __init__(self, path: Path, expected: FileIdentity = None, opened_as: FileIdentity = None) -> None:
        self.path = path
        self._expected = expected
        self._opened_as = opened_as
        self._archive: zipfile.ZipFile | None = None

    def read(self, name: str, digest: str | None) -> Floats:
        """One trace, shape (T,), float64, compared with its digest if there is one.

        Raises:
            LibraryError: The file or the trace is missing, damaged, too large, of another type, or not the one
                that was screened.
        """
        with unless_replaced(self.path.parent, self._opened_as):
            trace = self._read(name)
            if digest is not None and trace_digest(trace) != digest:
                raise LibraryError(
                    f"{self.path}: trace {name} is not the one that was screened; the library changed since it was "
                    f"opened, or was edited. Open it again, or validate it"
                )
            return trace

    def _read(self, name: str) -> Floats:
        try:
            if self._archive is None:
                self._archive = self._open()
            info = self._archive.getinfo(f"{name}.npy")
            if info.file_size > _LARGEST_TRACE_BYTES:
                raise ValueError(f"it claims {info.file_size} bytes; expected one number a second")
            return _parse(self._archive.read(info))
        except LibraryError:
            raise
        except KeyError:
            raise LibraryError(f"{self.path}: no trace {name}; the library is damaged, build it again") from None
        except Exception as error:  # noqa: BLE001 - zipfile, its decompressors and numpy raise what they like
            if isinstance(error, OSError):
                raise unreadable(self.path, error) from None
            text = " ".join(str(error).split())
            raise LibraryError(f"{self.path}: trace {name} cannot be read ({text}); the library is damaged") from None

    def _open(self) -> zipfile.ZipFile:
        stream = open_regular(self.path)
        if self._expected is not None and _identity(os.fstat(stream.fileno())) != self._expected:
            stream.close()
            raise LibraryError(f"{self.path}: the library changed since it was opened; open it again")
        return zipfile.ZipFile(stream)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_archive": None}


def _parse(data: bytes) -> Floats:
    # The header's shape is compared with the bytes at hand before numpy allocates what it asks for.
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("expected the npy format 1.0")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype != np.dtype("<f8") or len(shape) != 1 or shape[0] * 8 != len(data) - stream.tell():
        raise ValueError(f"expected a float64 array of one dimension, found {dtype} of shape {shape}")
    return np.frombuffer(data, dtype="<f8", offset=stream.tell())


class TraceArchiveDigest:
    """SHA-256 of the archive that `write_traces` makes of the pairs added so far, one pair in memory at a time.

    A context manager; `hexdigest` is the digest once the block has ended.
    """

    def __init__(self) -> None:
        self._sink = _HashingSink()
        self._archive = zipfile.ZipFile(self._sink, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._count = 0

    def __enter__(self) -> "TraceArchiveDigest":
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def add(self, baseline: Floats, ofo: Floats) -> None:
        """The traces of the next record."""
        _write_pair(self._archive, self._count, baseline, ofo)
        self._sink.settle()
        self._count += 1

    def hexdigest(self) -> str:
        """The digest of the finished archive."""
        return self._sink.hexdigest()


class _HashingSink(io.RawIOBase):
    """A file that is only hashed. A zip writer goes back to a member's header, so bytes are kept until they settle."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._pending = io.BytesIO()
        self._settled = 0

    def settle(self) -> None:
        """Nothing written so far will be written again."""
        self._hash.update(self._pending.getbuffer())
        self._settled += self._pending.getbuffer().nbytes
        self._pending = io.BytesIO()

    def hexdigest(self) -> str:
        self.settle()
        return self._hash.hexdigest()

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._settled + self._pending.tell()

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or position < self._settled:
            raise io.UnsupportedOperation(f"seek to {position} ({whence}); settled up to {self._settled}")
        return self._settled + self._pending.seek(position - self._settled)

    def write(self, data: "bytes | memoryview") -> int:  # type: ignore[override]
        return self._pending.write(data)
