"""What in a folder is ours. Only a folder with nothing else in it is ever replaced or removed.

Put a finished library directory in its place, all of it or nothing.

The directory is written beside its target, synced, and exchanged in one rename, so that a reader sees the old
library or the new one. Where the system cannot exchange two directories (only Linux can), there is a short moment
between two renames in which neither is there.

Where a library is about to be put: claimed by one process, refused if something else is there.
"""

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from scenario_lib._files import exclusive, read_json
from scenario_lib._values import few
from scenario_lib.errors import BuildRefusedError, LibraryError
from scenario_lib.library.layout import BUILD_LOG, DIGESTED, DIGESTS, FORMAT_VERSION, METADATA, RECORDS, REPORT, TRACES

_BESIDE_DIGESTED = frozenset({DIGESTS, BUILD_LOG, REPORT})
_OF_OPENG2G = frozenset({METADATA, TRACES, "candidates.csv", REPORT})
_SHARD = re.compile(r"shard-\d{5,}\.arrow")
_UNFINISHED = re.compile(r"\.(.+)\.\d+\.tmp")


def finished_name(name: str) -> str:
    """The name that a file gets when it is whole: one that a kill left half written has another one."""
    unfinished = _UNFINISHED.fullmatch(name)
    return unfinished[1] if unfinished else name


def is_library_file(name: str) -> bool:
    """Whether some library of ours has a file of that name, whole or half written."""
    name = finished_name(name)
    return name in (*DIGESTED, *_BESIDE_DIGESTED, RECORDS) or _SHARD.fullmatch(name) is not None


def _library_files(folder: Path) -> frozenset[str]:
    """Names of the files that the library in a folder may have; none if no library is recognised there.

    A library of ours is known by its digests, which list its files; one by openg2g's example by its metadata.
    """
    try:
        if (folder / DIGESTS).is_file():
            return _listed(read_json(folder / DIGESTS))
        return _of_openg2g(folder, read_json(folder / METADATA))
    except LibraryError:
        return frozenset()


def _listed(digests: Any) -> frozenset[str]:
    names = digests.get("sha256") if isinstance(digests, dict) else None
    if not isinstance(names, dict) or METADATA not in names or digests.get("format_version") != FORMAT_VERSION:
        return frozenset()
    return frozenset(filter(is_library_file, names)) | _BESIDE_DIGESTED


def _of_openg2g(folder: Path, metadata: Any) -> frozenset[str]:
    facts = metadata if isinstance(metadata, dict) else {}
    recognised = isinstance(facts.get("config"), dict) and isinstance(facts.get("scenarios"), list)
    return _OF_OPENG2G if recognised and (folder / TRACES).is_file() else frozenset()


def require_replaceable(place: Path) -> None:
    """Refuse to replace what is neither a library, with none but its own files, nor an empty directory.

    Raises:
        BuildRefusedError: Something else is there; the message names some of it.
    """
    if not os.path.lexists(place):
        return
    if place.is_symlink() or not place.is_dir():
        raise BuildRefusedError(f"{place}: is not a library, and is never overwritten; choose another --out")
    ours = _library_files(place)
    others = _others(place, lambda name: finished_name(name) in ours)
    if others and not ours:
        raise BuildRefusedError(
            f"{place}: is not a library, and is never overwritten (it has {few(others)}); choose another --out"
        )
    _refuse(place, others)


def require_parts_replaceable(place: Path) -> None:
    """The same for the folder of a split: nothing but its parts is there, and each may be replaced.

    Raises:
        BuildRefusedError: Something else is there; the message names some of it.
    """
    if not place.is_dir():
        require_replaceable(place)
        return
    others = sorted(entry.name for entry in place.iterdir() if not _is_part(entry))
    if others:
        raise BuildRefusedError(
            f"{place}: is not a library, and is never overwritten, nor is it the folder of a split (it has "
            f"{few(others)}); choose another --out"
        )
    for part in place.iterdir():
        require_replaceable(part)


def _is_part(folder: Path) -> bool:
    """Whether a split wrote a folder; its build log says so."""
    try:
        log = None if folder.is_symlink() else read_json(folder / BUILD_LOG)
    except LibraryError:
        return False
    return isinstance(log, dict) and log.get("command") == "split" and log.get("part") == folder.name


def require_leftover(folder: Path, is_ours: Callable[[str], bool] = is_library_file) -> None:
    """Refuse to clear a place for work in progress in which somebody keeps something else.

    Raises:
        BuildRefusedError: Something else is there; the message names some of it.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise BuildRefusedError(f"{folder}: is in the way of work in progress, and is never removed; move it away")
    inside = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    _refuse(folder, sorted(str(p.relative_to(folder)) for p in inside if not _is_file(p) or not is_ours(p.name)))


def _others(folder: Path, is_ours: Callable[[str], bool]) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not _is_file(path) or not is_ours(path.name))


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _refuse(place: Path, others: list[str]) -> None:
    if others:
        raise BuildRefusedError(
            f"{place}: holds what scenario-lib did not write, and is never removed ({few(others)}); move that away, "
            f"or choose another --out"
        )


def require_apart(place: Path, sources: Iterable[Path]) -> None:
    """Refuse a place inside a library, and one that is, holds, or lies in what is read.

    Folders are compared by what they are, so that links and other spellings of a path deceive nobody.

    Raises:
        BuildRefusedError: Naming the library in the way.
    """
    require_outside_libraries(place)
    for source in (Path(source).resolve() for source in sources):
        if _lies_in(source, place) or _lies_in(place, source):
            raise BuildRefusedError(f"{place}: is, holds or lies in {source}, which is read; choose another --out")


def require_outside_libraries(place: Path) -> None:
    """Refuse an absolute path that lies inside a library, where nothing but its own files belongs.

    Raises:
        BuildRefusedError: Naming the library.
    """
    for folder in place.parents:
        if (folder / DIGESTS).is_file() or ((folder / METADATA).is_file() and (folder / TRACES).is_file()):
            raise BuildRefusedError(f"{place}: lies inside the library {folder}; choose another --out")


def _lies_in(path: Path, folder: Path) -> bool:
    return folder.exists() and any(each.exists() and each.samefile(folder) for each in (path, *path.parents))


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


def _replaced_place(target: Path) -> Path:
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
        replaced = _replaced_place(target)
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


def _require_absent(target: Path, overwrite: bool) -> None:
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
    for place in (target, finished, _replaced_place(target)):
        require_apart(place, sources)
    _require_absent(target, overwrite)
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
        with _emptied(beside(target, "new")) as folder:
            yield folder
            publish(folder, target, may_replace)


@contextmanager
def _emptied(folder: Path) -> Iterator[Path]:
    """An empty directory, removed again if it is still there when the block ends."""
    require_leftover(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
