"""How functions are compiled: `kernel` in place of `numba.njit`, with the machine code kept on disk.

numba notices a changed source file, but not a change in a kernel that another file calls. So the cache folder has
the digest of all kernel sources in its name: after an update nothing stale can be loaded.

Machine code is made once, however many workers start: the first makes it under a lock, the others wait and load.
"""

import contextlib
import functools
import hashlib
import logging
import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
from filelock import FileLock
from numba.core.caching import FunctionCache, IndexDataCacheFile

Kernel = Callable[..., Any]

logger = logging.getLogger(__name__)

_DIGEST_BYTES = hashlib.sha256().digest_size
_PREFIX = "scenario-lib-kernels-"
_UNUSED_DAYS = 30
_SECONDS_PER_DAY = 86400


@functools.cache
def _sources_digest() -> str:
    """Digest of every source file beside this one, and of the versions that turn them into machine code."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder() -> Path | None:
    """Where machine code is kept: beside the sources if that can be written, else in the user's cache.

    `NUMBA_CACHE_DIR`, if set, comes first; a folder for temporary files comes last. None if none can be written:
    then machine code is made anew in every process.
    """
    own = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    candidates = [Path(own)] if own else []
    candidates += [Path(__file__).parent / "__pycache__", user]
    name = f"{_PREFIX}{_sources_digest()}"
    for folder in (parent / name for parent in candidates):
        new = not folder.exists()
        if _writable(folder):
            with contextlib.suppress(OSError):
                os.utime(folder)  # in use
            if new:
                prune_beside(folder)
            return folder
    folder = _own_temporary_folder() / name
    if _writable(folder):
        return folder
    tried = ", ".join(map(str, [*candidates, folder]))
    logger.warning("machine code is not kept, as none of %s can be written; set NUMBA_CACHE_DIR to a folder", tried)
    return None


def prune_beside(folder: Path) -> None:
    """Remove machine code of other versions that no process has begun to use for a month.

    Each is renamed first, which one process alone can do, so that none finds half of it.
    """
    oldest = time.time() - _UNUSED_DAYS * _SECONDS_PER_DAY
    for other in folder.parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process was first, or it is somebody else's
            if other != folder and other.stat().st_mtime < oldest:
                digest = other.name.removeprefix(_PREFIX)
                removed = other.rename(other.with_name(f"{_PREFIX}removed-{os.getpid()}-{digest}"))
                shutil.rmtree(removed, ignore_errors=True)


def _own_temporary_folder() -> Path:
    """Among everybody's temporary files, a folder of this user's: machine code is not taken from others."""
    who = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"scenario-lib-{who}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
    if folder.exists() and hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="scenario-lib-"))
    return folder


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def kernel(function: Kernel) -> Kernel:
    """Compile at the first call, or load what was compiled before; strict IEEE arithmetic, no lock held."""
    return _compiled(function, forceinline=False)


def inlined_kernel(function: Kernel) -> Kernel:
    """As `kernel`, made part of whoever calls it: for small parts that are handed many arrays, which costs more than
    what they do."""
    return _compiled(function, forceinline=True)


def _compiled(function: Kernel, *, forceinline: bool) -> Kernel:
    options = {"fastmath": False, "nogil": True, "error_model": "numpy", "forceinline": forceinline}
    compiled: Any = numba.njit(**options)(function)
    folder = cache_folder()
    if folder is not None:
        compiled._cache = _kept(function, folder)  # what njit(cache=True) sets, with files that are checked
    kept: Kernel = compiled
    return kept


def _kept(function: Kernel, folder: Path) -> "_CheckedCache":
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)  # read while the cache is made, so that other packages keep theirs
    try:
        return _CheckedCache(function)
    finally:
        numba.config.CACHE_DIR = before


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """numba's files with a digest at the end of each: what is damaged counts as absent, and is made anew.

    Without it a file cut short raises whatever unpickling raises, and changed machine code ends the process.
    """

    def _dump(self, content: object) -> bytes:
        data: bytes = super()._dump(content)
        return data + hashlib.sha256(data).digest()

    def _load_index(self) -> dict[Any, str]:
        path = Path(self._index_path)
        head = pickle.dumps(self._version, protocol=-1)
        if not path.exists() or not path.read_bytes().startswith(head) or not _is_whole(path, len(head)):
            return {}
        index: dict[Any, str] = super()._load_index()
        return index

    def _load_data(self, name: str) -> Any:
        path = Path(self._data_path(name))
        if not _is_whole(path, 0):
            raise OSError(f"{path} is damaged")  # which numba takes as an absent file
        return super()._load_data(name)


def _is_whole(path: Path, start: int) -> bool:
    """Whether a file ends with the digest of what is in it from a position on."""
    content = path.read_bytes()[start:]
    data, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(data).digest() == digest:
        return True
    logger.warning("%s: machine code there was damaged and is made anew", path.parent)
    return False


class _CheckedCache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function; where it cannot be read or written, the function is compiled and not kept."""

    def __init__(self, function: Kernel) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except OSError as error:
            _say_not_kept(self.cache_path, error.strerror)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _say_not_kept(self.cache_path, error.strerror)


@functools.cache
def _say_not_kept(folder: str, why: str | None) -> None:
    logger.warning("%s: machine code cannot be kept there (%s), so that every run compiles anew", folder, why)


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
        with _compiling_alone(folder, part):
            if not (folder / f"{part}.compiled").exists():
                _announce()
            yield
            with contextlib.suppress(OSError):  # of a full disk: the next process compiles again
                (folder / f"{part}.compiled").touch()
    _seen.add(part)


@contextmanager
def _compiling_alone(folder: Path, part: str) -> Iterator[None]:
    """Alone on this machine with this part; without a lock where none can be made, which costs time only."""
    lock = FileLock(folder / f"{part}.lock")
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
    logger.info("compiling the engine's kernels, once per machine, about twenty seconds on two cores")
