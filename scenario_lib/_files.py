"""One form of plain data, so that equal data are equal bytes and have equal digests on every machine.

Reading what strangers give: only regular files are opened, so that nothing waits for ever or reads without end.

One process at a time: a lock file that the system frees if its holder dies, and that is gone when it is done.

The files of a library directory: their names, the format version, and how they are written and read safely.
"""

import errno
import fcntl
import hashlib
import io
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from scenario_lib.errors import DataFileError, IrregularFileError, LibraryError, UnwritableFileError


class _Absent:
    """Stands for a key that only the other side has, which is not the same as null."""

    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def canonical_json(value: Any) -> str:
    """Strict JSON with sorted keys, shortest round-trip floats, no spaces, and 0.0 for -0.0.

    Raises:
        DataFileError: The value holds NaN or an infinity.
    """
    try:
        return json.dumps(_without_negative_zero(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise DataFileError(f"cannot be written as JSON: {error}; expected finite numbers only") from None


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical form."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def first_difference(found: Any, expected: Any, place: str = "") -> str | None:
    """Where two plain values first differ, as "a.b[2]: found 1, expected 2"; None if nowhere."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = sorted(found.keys() | expected.keys())
        pairs = [(f"{place}.{key}".lstrip("."), found.get(key, _ABSENT), expected.get(key, _ABSENT)) for key in keys]
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(found, expected, strict=True))]
    else:
        return None if found == expected else f"{place or 'value'}: found {found!r}, expected {expected!r}"
    differences = (first_difference(a, b, where) for where, a, b in pairs)
    return next((difference for difference in differences if difference), None)


def _without_negative_zero(value: Any) -> Any:
    if isinstance(value, float):
        return 0.0 if value == 0 and math.copysign(1.0, value) < 0 else value
    if isinstance(value, dict):
        return {key: _without_negative_zero(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_negative_zero(entry) for entry in value]
    return value


_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path) -> BufferedReader:
    """A file, opened for reading; links are followed.

    Raises:
        IrregularFileError: A pipe, a device or a socket.
        OSError: It is missing, a directory, or may not be read.
    """
    # Looked at before it is opened, since opening a device may do something; and after, since it may have changed.
    _require_regular(path.stat(), path)
    descriptor = os.open(path, _FLAGS)
    try:
        _require_regular(os.fstat(descriptor), path)
        return BufferedReader(io.FileIO(descriptor, "rb"))
    except BaseException:
        os.close(descriptor)
        raise


def require_regular(path: Path) -> None:
    """Say of what is there, but is no file, what it is; nothing of what is missing or a directory.

    Raises:
        IrregularFileError: A pipe, a device or a socket.
    """
    if path.exists() and not path.is_dir():
        _require_regular(path.stat(), path)


def _require_regular(status: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        found = _KINDS.get(kind, "something else")
        raise IrregularFileError(f"{path}: is {found}, which is never read; expected a regular file")


def read_bytes(path: Path) -> bytes:
    """All bytes of a regular file; see `open_regular`."""
    with open_regular(path) as stream:
        return stream.read()


def read_text(path: Path, errors: str = "strict") -> str:
    """The text of a regular UTF-8 file, each end of line as a line feed; see `open_regular`.

    Raises:
        UnicodeDecodeError: It is not UTF-8, and `errors` is "strict".
    """
    with io.TextIOWrapper(open_regular(path), encoding="utf-8", errors=errors) as stream:
        return stream.read()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock at `path`; it and the directories made for it are removed again, where they are empty.

    Raises:
        BlockingIOError: Somebody else holds it.
        OSError: It cannot be made there, or something else has its name.
    """
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _acquired(path)
        try:
            yield
        finally:
            with suppress(OSError):  # a lock file that stays locks nobody out
                path.unlink()
            os.close(descriptor)
    finally:
        with suppress(OSError):  # what is not empty stays
            for folder in made:
                folder.rmdir()


def _acquired(path: Path) -> int:
    """An open lock file. Its last holder may remove the name between opening and locking: then it is opened anew."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            _require_lock_file(descriptor, path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _require_lock_file(descriptor: int, path: Path) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size:
        raise FileExistsError(errno.EEXIST, "is not an empty file, as a lock is", str(path))


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


_LARGEST_JSON_BYTES = 256 * 1024**2
"""About 250 000 records. Parsed, honest JSON takes about six times its size, hostile JSON twenty times."""


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around writing to a file: whatever fails names it.

    Raises:
        UnwritableFileError: The disk is full, or may not be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        raise UnwritableFileError(
            f"{path}: cannot be written ({error.strerror}); make room or permit writing there"
        ) from None


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file at `path` only when the block ends without an error.

    Raises:
        UnwritableFileError: The disk is full, or may not be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path), temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Strict JSON, one top-level key or list entry a line, so that libraries can be compared with line tools."""
    with replacing(path) as stream:
        for chunk in json_lines(value):
            stream.write(chunk.encode())


def json_lines(value: dict[str, Any]) -> Iterator[str]:
    """The text that `write_json` writes, in pieces; an iterator stands for a list that is not held in memory."""
    yield "{"
    for position, (key, entry) in enumerate(value.items()):
        yield ("," if position else "") + f"\n{json.dumps(key)}: "
        if isinstance(entry, list | Iterator):
            yield from _list_lines(entry)
        else:
            yield canonical_json(entry)
    yield "\n}\n"


def _list_lines(entries: Iterable[Any]) -> Iterator[str]:
    yield "["
    for position, entry in enumerate(entries):
        yield ("," if position else "") + "\n" + canonical_json(entry)
    yield "\n]"


def read_json(path: Path) -> Any:
    """Content of a strict JSON file.

    Raises:
        LibraryError: The file is missing, too large, not UTF-8, not JSON, holds NaN, infinities or a name twice; the
            message names it.
    """
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > _LARGEST_JSON_BYTES:
                raise LibraryError(f"{path}: {size} bytes is too large to be a library's JSON file")
            return parse_json(stream.read().decode())
    except IrregularFileError as error:
        raise LibraryError(str(error)) from None
    except FileNotFoundError:
        raise LibraryError(f"{path}: no such file; a library directory has one, so this is not a library") from None
    except (OSError, ValueError, RecursionError) as error:
        text = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise LibraryError(
            f"{path}: cannot be read ({text}); restore it from a copy or build the library again"
        ) from None


def unreadable(path: Path, error: Exception) -> LibraryError:
    """What to say of a library's file that cannot be read: whether the whole library is gone, or only this is wrong."""
    if not path.parent.is_dir():
        return LibraryError(f"{path.parent}: no such directory; the library was moved or removed, open it where it is")
    if isinstance(error, IrregularFileError):
        return LibraryError(str(error))
    text = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
    return LibraryError(f"{path}: cannot be read ({text}); the library is damaged")


def parse_json(text: str) -> Any:
    """Value of strict JSON.

    Raises:
        ValueError, RecursionError: Not JSON, nested too deeply, or it holds NaN, infinities or a name twice.
    """
    return json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_without_repetition)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not allowed; expected finite numbers")
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice in one object")
    return values
