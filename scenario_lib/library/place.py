"""Where a library is about to be put: claimed by one process, refused if something else is there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from scenario_lib.errors import BuildRefusedError
from scenario_lib.library.files import METADATA
from scenario_lib.library.publish import publish


def beside(target: Path, suffix: str) -> Path:
    """A hidden place beside a library."""
    return target.with_name(f".{target.name}.{suffix}")


def resolved_target(out: Path) -> Path:
    """The absolute path of a library about to be written.

    Raises:
        BuildRefusedError: It has no name, as the root directory.
    """
    target = out.resolve()
    if not target.name:
        raise BuildRefusedError(f"{target}: cannot become a library; choose another --out")
    return target


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Hold the only right to write at this target; the system releases it if the process dies.

    Raises:
        BuildRefusedError: Another process holds it, or the parent directory cannot be written.
    """
    lock = FileLock(beside(target, "lock"), timeout=0)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise BuildRefusedError(
            f"{target}: another build is writing there; wait for it, or choose another --out"
        ) from None
    except OSError as error:
        raise BuildRefusedError(
            f"{target}: cannot write beside it ({error.strerror}: {error.filename}); choose another --out"
        ) from None
    try:
        yield
    finally:
        lock.release()


def require_absent(target: Path, overwrite: bool) -> None:
    """Refuse a target that exists, unless it may be overwritten.

    Raises:
        BuildRefusedError: Naming the option that replaces it.
    """
    if target.exists() and not overwrite:
        raise BuildRefusedError(f"{target}: exists already; replace it with --overwrite, or choose another --out")


def require_replaceable(place: Path) -> None:
    """Refuse to overwrite what is neither a library nor an empty directory.

    Raises:
        BuildRefusedError: Something else is there.
    """
    if not place.exists() or (place / METADATA).is_file():
        return
    if not place.is_dir() or any(place.iterdir()):
        raise BuildRefusedError(f"{place}: is not a library, and is never overwritten; choose another --out")


@contextmanager
def new_library(out: Path, overwrite: bool) -> Iterator[Path]:
    """An empty directory that becomes the library at `out`, in one rename, when the block ends without an error.

    Raises:
        BuildRefusedError: Something is there that may not be replaced, or another process writes there.
    """
    target = resolved_target(out)
    with claimed(target):
        require_absent(target, overwrite)
        require_replaceable(target)
        with emptied(beside(target, "new")) as folder:
            yield folder
            publish(folder, target)


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """An empty directory, removed again if it is still there when the block ends."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
