"""The files of a library directory: their names, the format version, and how they are written and read safely."""

import errno
import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from scenario_lib.errors import IrregularFileError, LibraryError, UnwritableFileError
from scenario_lib.feeders.canonical import canonical_json
from scenario_lib.feeders.regular_files import open_regular

FORMAT_VERSION = 2
"""Raised when a change of the files would make older readers misread them."""

METADATA = "metadata.json"
TRACES = "traces.npz"
CANDIDATES = "candidates.parquet"
RESOLVED = "resolved.parquet"
DIGESTS = "digests.json"
BUILD_LOG = "build-log.json"
REPORT = "report.html"

DIGESTED = (METADATA, TRACES, CANDIDATES, RESOLVED)
"""Files that are equal, byte for byte, whenever inputs and versions are; the build log and the page are not listed."""

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
            f"{path}: cannot be written ({error.strerror}); make room or permit writing there, and go on"
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
