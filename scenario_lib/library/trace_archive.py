"""The digest that `traces.npz` would have, without writing it: 5.8 GB for 100 000 records."""

import hashlib
import io
import zipfile

from scenario_lib.library.traces import Array, write_pair


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

    def add(self, baseline: Array, ofo: Array) -> None:
        """The traces of the next record."""
        write_pair(self._archive, self._count, baseline, ofo)
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
