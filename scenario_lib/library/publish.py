"""Put a finished library directory in its place, all of it or nothing.

The directory is written beside its target, synced, and exchanged in one rename, so that a reader sees the old
library or the new one. Where the system cannot exchange two directories (only Linux can), there is a short moment
between two renames in which neither is there.
"""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from scenario_lib.library.ownership import require_leftover, require_replaceable

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def sync(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(folder: Path) -> None:
    """Flush a directory's files and its entries to disk."""
    for path in [*folder.iterdir(), folder]:
        sync(path)


def replaced_place(target: Path) -> Path:
    """Where a library that is replaced lies for a moment, on systems that cannot exchange directories."""
    return target.with_name(f".{target.name}.replaced")


def publish(finished: Path, target: Path, may_replace: Callable[[Path], None] = require_replaceable) -> None:
    """Move `finished` to `target`, replacing what is there in one step.

    Raises:
        BuildRefusedError: What is there by now may not be replaced.
    """
    sync_directory(finished)
    may_replace(target)
    if not target.exists():
        finished.rename(target)
    elif _exchange(finished, target):
        shutil.rmtree(finished)
    else:
        replaced = replaced_place(target)
        require_leftover(replaced)
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
        try:
            finished.rename(target)
        except OSError:
            replaced.rename(target)
            raise
        shutil.rmtree(replaced)
    sync(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two directories atomically; False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(second))
