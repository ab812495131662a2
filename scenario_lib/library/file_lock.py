"""One process at a time: a lock file that the system frees if its holder dies, and that is gone when it is done."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
