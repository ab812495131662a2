"""Where a library is about to be put: claimed by one process, refused if something else is there."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scenario_lib.errors import BuildRefusedError
from scenario_lib.library.file_lock import exclusive
from scenario_lib.library.ownership import require_apart, require_leftover, require_replaceable
from scenario_lib.library.publish import publish, replaced_place


def beside(target: Path, suffix: str) -> Path:
    """A hidden place beside a library."""
    return target.with_name(f".{target.name}.{suffix}")


def resolved_target(out: Path) -> Path:
    """The absolute path of a library about to be written.

    Raises:
        BuildRefusedError: It has no name, as the root directory, or is a link that leads to itself.
    """
    try:
        target = out.resolve()
    except (OSError, RuntimeError) as error:
        raise BuildRefusedError(f"{out}: is no place for a library ({error}); choose another --out") from None
    if not target.name:
        raise BuildRefusedError(f"{target}: cannot become a library; choose another --out")
    return target


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Hold the only right to write at this target; the system releases it if the process dies.

    Directories that were made for it are removed again if nothing was put there.

    Raises:
        BuildRefusedError: Another process holds it, or the parent directory cannot be written.
    """
    with ExitStack() as held:
        try:
            held.enter_context(exclusive(beside(target, "lock")))
        except BlockingIOError:
            raise BuildRefusedError(
                f"{target}: another build is writing there; wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise BuildRefusedError(
                f"{target}: cannot write beside it ({error.strerror}: {error.filename}); choose another --out"
            ) from None
        yield


def require_absent(target: Path, overwrite: bool) -> None:
    """Refuse a target that exists, unless it may be overwritten.

    Raises:
        BuildRefusedError: Naming the option that replaces it.
    """
    if target.exists() and not overwrite:
        raise BuildRefusedError(f"{target}: exists already; replace it with --overwrite, or choose another --out")


def require_place(
    out: Path,
    overwrite: bool,
    sources: Iterable[Path] = (),
    may_replace: Callable[[Path], None] = require_replaceable,
) -> Path:
    """The absolute path of a library about to be written, if it may be: asked before any work, and again when claimed.

    Args:
        out: Where to.
        overwrite: Replace what is there.
        sources: The libraries that are read for it.
        may_replace: Refuses what may not be replaced.

    Raises:
        BuildRefusedError: It lies in a library, or in or around a source; or something is there that stays.
    """
    target, sources = resolved_target(out), tuple(sources)
    finished = beside(target, "new")
    for place in (target, finished, replaced_place(target)):
        require_apart(place, sources)
    require_absent(target, overwrite)
    may_replace(target)
    require_leftover(finished)
    return target


@contextmanager
def new_library(
    out: Path,
    overwrite: bool,
    sources: Iterable[Path] = (),
    may_replace: Callable[[Path], None] = require_replaceable,
) -> Iterator[Path]:
    """An empty directory that becomes the library at `out`, in one rename, when the block ends without an error.

    Args: see `require_place`.

    Raises:
        BuildRefusedError: Something is there that may not be replaced, or another process writes there.
    """
    with claimed(resolved_target(out)):
        target = require_place(out, overwrite, sources, may_replace)
        with emptied(beside(target, "new")) as folder:
            yield folder
            publish(folder, target, may_replace)


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """An empty directory, removed again if it is still there when the block ends."""
    require_leftover(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
