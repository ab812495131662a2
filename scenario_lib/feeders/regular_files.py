"""Reading what strangers give: only regular files are opened, so that nothing waits for ever or reads without end."""

import errno
import io
import os
import stat
from io import BufferedReader
from pathlib import Path

from scenario_lib.errors import IrregularFileError

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
