"""Machine code is made once, however many workers start: the first makes it under a lock, the others wait and load."""

import contextlib
import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from scenario_lib.simulation.compiled.kernels import cache_folder

logger = logging.getLogger(__name__)

_LOCK = "compiling.lock"
_seen: set[str] = set()


def all_compiled(*parts: str) -> bool:
    """Whether somebody on this machine has compiled these kernels, so that they only need to be loaded."""
    folder = cache_folder()
    return folder is not None and all((folder / f"{part}.compiled").exists() for part in parts)


@contextmanager
def compiling_once(part: str) -> Iterator[None]:
    """Around the use of some kernels: alone in it as long as nobody on this machine has compiled them.

    Not to be nested.

    Args:
        part: Name for these kernels, part of a file name.
    """
    if part in _seen:
        yield
        return
    folder = cache_folder()
    if folder is None:  # nothing is kept, so that there is nothing to wait for
        _announce()
        yield
    elif (folder / f"{part}.compiled").exists():
        yield
    else:
        with _compiling_alone(folder):
            if not (folder / f"{part}.compiled").exists():
                _announce()
            yield
            with contextlib.suppress(OSError):  # of a full disk: the next process compiles again
                (folder / f"{part}.compiled").touch()
    _seen.add(part)


@contextmanager
def _compiling_alone(folder: Path) -> Iterator[None]:
    """Alone on this machine; without a lock where none can be made, which costs time only."""
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire()
    except OSError as error:
        logger.warning("%s: cannot be locked (%s); several processes may compile the same", folder, error.strerror)
    try:
        yield
    finally:
        lock.release()


@functools.cache
def _announce() -> None:
    logger.info("compiling the engine's kernels, once per machine, about half a minute")
