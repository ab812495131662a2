"""What in a folder is ours. Only a folder with nothing else in it is ever replaced or removed."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scenario_lib.errors import BuildRefusedError, LibraryError
from scenario_lib.library.files import (
    BUILD_LOG,
    DIGESTED,
    DIGESTS,
    FORMAT_VERSION,
    METADATA,
    REPORT,
    TRACES,
    read_json,
)
from scenario_lib.library.store_layout import RECORDS

_BESIDE_DIGESTED = frozenset({DIGESTS, BUILD_LOG, REPORT})
_OF_OPENG2G = frozenset({METADATA, TRACES, "candidates.csv", REPORT})
_SHARD = re.compile(r"shard-\d{5,}\.arrow")
_UNFINISHED = re.compile(r"\.(.+)\.\d+\.tmp")
_SHOWN = 3


def finished_name(name: str) -> str:
    """The name that a file gets when it is whole: one that a kill left half written has another one."""
    unfinished = _UNFINISHED.fullmatch(name)
    return unfinished[1] if unfinished else name


def is_library_file(name: str) -> bool:
    """Whether some library of ours has a file of that name, whole or half written."""
    name = finished_name(name)
    return name in (*DIGESTED, *_BESIDE_DIGESTED, RECORDS) or _SHARD.fullmatch(name) is not None


def library_files(folder: Path) -> frozenset[str]:
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
    ours = library_files(place)
    others = _others(place, lambda name: finished_name(name) in ours)
    if others and not ours:
        raise BuildRefusedError(
            f"{place}: is not a library, and is never overwritten (it has {_few(others)}); choose another --out"
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
            f"{_few(others)}); choose another --out"
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
            f"{place}: holds what scenario-lib did not write, and is never removed ({_few(others)}); move that away, "
            f"or choose another --out"
        )


def _few(names: list[str]) -> str:
    shown, more = ", ".join(names[:_SHOWN]), len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


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
