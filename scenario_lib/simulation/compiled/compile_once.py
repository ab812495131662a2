"""Machine code is made once, however many workers start: the first makes it under a lock, the others wait and load."""

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock

from scenario_lib.simulation.compiled.kernels import cache_folder

logger = logging.getLogger(__name__)

_LOCK = "compiling.lock"
_seen: set[str] = set()


def all_compiled(*parts: str) -> bool:
    """Whether somebody on this machine has compiled these kernels, so that they only need to be loaded."""
    return all((cache_folder() / f"{part}.compiled").exists() for part in parts)


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
    marker = cache_folder() / f"{part}.compiled"
    if marker.exists():
        yield
    else:
        with FileLock(cache_folder() / _LOCK):
            if not marker.exists():
                _announce()
            yield
            marker.touch()
    _seen.add(part)


@functools.cache
def _announce() -> None:
    logger.info("compiling the engine's kernels, once per machine, about half a minute")
