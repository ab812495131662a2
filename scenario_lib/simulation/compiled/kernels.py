"""How functions are compiled: `kernel` in place of `numba.njit`, with the machine code kept on disk.

numba notices a changed source file, but not a change in a kernel that another file calls. So the cache folder has
the digest of all kernel sources in its name: after an update nothing stale can be loaded.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

Kernel = Callable[..., Any]

_PREFIX = "scenario-lib-kernels-"
_UNUSED_DAYS = 30
_SECONDS_PER_DAY = 86400


@functools.cache
def sources_digest() -> str:
    """Digest of every source file beside this one, and of the versions that turn them into machine code."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder() -> Path:
    """Where machine code is kept: beside the sources if that can be written, else in the user's cache.

    `NUMBA_CACHE_DIR`, if set, comes first; a folder for temporary files comes last.
    """
    own = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    candidates = [Path(own)] if own else []
    candidates += [Path(__file__).parent / "__pycache__", user]
    name = f"{_PREFIX}{sources_digest()}"
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
    raise OSError(f"no folder for machine code among {candidates}, {folder}; set NUMBA_CACHE_DIR to one")


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
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())  # read while decorating, so that other packages keep theirs
    try:
        options = {"cache": True, "fastmath": False, "nogil": True, "error_model": "numpy"}
        options["forceinline"] = forceinline
        compiled: Kernel = numba.njit(**options)(function)
        return compiled
    finally:
        numba.config.CACHE_DIR = before
