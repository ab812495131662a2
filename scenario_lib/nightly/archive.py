"""Where nights lie on disk, and how they get there so that a kill at any moment leaves nothing half done.

ROOT/current            -> nights/2026-11-30, moved in one rename, and only to a night that passed
ROOT/nights/2026-11-30  a library that passed, with 2026-11-30.json beside it
ROOT/failed/2026-11-29  one that did not, likewise
ROOT/work/              the build that is under way

Whatever else is there (lost+found, a README, a night that lies in the future) is not ours: it is neither read nor
removed.
"""

import logging
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from scenario_lib._files import exclusive, write_json
from scenario_lib.errors import BuildRefusedError, NightBusyError
from scenario_lib.library.place import is_library_file, require_leftover, require_replaceable, sync, sync_directory
from scenario_lib.screening.journal import is_journal_file

logger = logging.getLogger(__name__)

_TRASH = ".trash-"
_REPORT = ".json"

_LEEWAY = timedelta(days=2)
"""Clocks and time zones differ by less; a night further ahead is a mistake."""


def latest_night() -> date:
    """The last day that may name a night now; later ones lie in the future."""
    return datetime.now(UTC).date() + _LEEWAY


def _night_named(name: str) -> date | None:
    """The night of that name, such as "2026-11-30"; None if it is not one."""
    try:
        night = date.fromisoformat(name)
    except ValueError:
        return None
    # Python reads "20261130" and "2026-W49-1" too, and nobody looks for a night there.
    return night if night.isoformat() == name else None


class RunArchive:
    """Nights of one kind, in one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def report(self, night: date) -> Path:
        return self.folder / f"{night.isoformat()}{_REPORT}"

    def require_place(self, night: date) -> None:
        """Refuse a night whose place is taken by what no night wrote.

        Raises:
            BuildRefusedError: Naming it.
        """
        for place, fits in ((self.library(night), Path.is_dir), (self.report(night), Path.is_file)):
            if os.path.lexists(place) and not fits(place):
                raise BuildRefusedError(f"{place}: is not what a night writes there; move it away")

    def library(self, night: date) -> Path:
        return self.folder / night.isoformat()

    def put(self, library: Path, night: date, report: dict[str, Any]) -> Path:
        """Move a library here, with its report written first."""
        self.note(night, report)
        target = self.library(night)
        _discard(target)
        sync_directory(library)
        library.rename(target)
        sync(self.folder)
        return target

    def note(self, night: date, report: dict[str, Any]) -> None:
        """Write a night's report without a library."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.report(night), report)

    def nights(self) -> list[date]:
        """Nights of which there is a library or a report, newest first; those in the future are none, and are named."""
        if not self.folder.is_dir():
            return []
        found = {night for path in self.folder.iterdir() if (night := _night_of(path)) is not None}
        latest = latest_night()
        for night in sorted(night for night in found if night > latest):
            logger.warning("%s: lies in the future, and is left out", self.folder / night.isoformat())
        return sorted((night for night in found if night <= latest), reverse=True)

    def prune(self, keep: int, spare: Collection[date] = ()) -> None:
        """Remove all but the newest, and never those that are spared."""
        for night in self.nights()[keep:]:
            if night not in spare and _is_removable(self.library(night)):
                _discard(self.library(night))
                self.report(night).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Finish removals that were interrupted."""
        for leftover in self.folder.glob(f"{_TRASH}*"):
            if _night_named(leftover.name.removeprefix(_TRASH)):
                require_leftover(leftover)
                shutil.rmtree(leftover)


def _night_of(path: Path) -> date | None:
    """The night whose library or report this is; None if it is neither."""
    if path.is_dir():
        return _night_named(path.name)
    return _night_named(path.name.removesuffix(_REPORT)) if path.suffix == _REPORT and path.is_file() else None


class NightFolders:
    """All places of a nightly run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.good = RunArchive(root / "nights")
        self.failed = RunArchive(root / "failed")
        self.pointer = root / "current"
        self._work = root / "work"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the only right to run here; the system releases it if the process dies.

        Raises:
            NightBusyError: Another run holds it.
        """
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(self.root / ".nightly.lock"))
            except BlockingIOError:
                raise NightBusyError(f"{self.root}: another nightly run is under way; this one did nothing") from None
            yield

    def work(self, night: date) -> Path:
        """The directory of a night's build; what is there of the same night stays, other nights are removed.

        Raises:
            BuildRefusedError: Something that is not ours is where this would be removed or replaced.
        """
        require_replaceable(self.failed.library(night))
        wanted = self._work / night.isoformat()
        wanted.mkdir(parents=True, exist_ok=True)
        builds = [path for path in self._work.iterdir() if _night_named(path.name)]
        for build in builds:
            require_leftover(build, _is_work)
        for build in builds:
            if build != wanted:
                shutil.rmtree(build)
        for shelf in (self.good, self.failed):
            shelf.sweep()
        return wanted

    def forget_work(self, night: date) -> None:
        """Remove what a night's build left."""
        shutil.rmtree(self._work / night.isoformat(), ignore_errors=True)
        if not any(self._work.iterdir()):
            self._work.rmdir()

    @property
    def pointer_is_foreign(self) -> bool:
        """Something stands where the pointer belongs that no night put there."""
        return os.path.lexists(self.pointer) and self._pointed() is None

    def current(self) -> date | None:
        """The night that the pointer names; None if it names none that counts."""
        night = self._pointed()
        return None if night is None or night > latest_night() or not self.good.library(night).is_dir() else night

    def last_good(self) -> date | None:
        """The night that others are compared with: the current one, or else the newest that is there."""
        there = (night for night in self.good.nights() if self.good.library(night).is_dir())
        return self.current() or next(there, None)

    def _pointed(self) -> date | None:
        """The night that the pointer names, whether or not it is there."""
        if not self.pointer.is_symlink():
            return None
        target = self.root / self.pointer.readlink()
        return _night_named(target.name) if target.parent.resolve() == self.good.folder.resolve() else None

    def advance(self, night: date) -> bool:
        """Move the pointer forward to a night; False if what stands there is not ours, and stays."""
        if self.pointer_is_foreign:
            logger.warning("%s: was not put there by a night, and is left as it is", self.pointer)
            return False
        current = self.current()
        if current is None or current < night:
            self.point_at(night)
        return True

    def point_at(self, night: date) -> None:
        """Move the pointer in one rename; it is relative, so that the root can be moved."""
        fresh = self.root / ".current.new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(self.good.library(night).relative_to(self.root))
        fresh.replace(self.pointer)
        sync(self.root)


def _is_work(name: str) -> bool:
    """Whether a night's build has a file of that name."""
    return is_library_file(name) or is_journal_file(name) or name == ".library.lock"


def _is_removable(library: Path) -> bool:
    """Whether a night is nothing but a library; one with notes in it stays."""
    try:
        require_replaceable(library)
    except BuildRefusedError as refused:
        logger.warning("not removed: %s", refused)
        return False
    return True


def _discard(folder: Path) -> None:
    """Remove a directory so that nobody sees half of it."""
    require_replaceable(folder)
    if folder.exists():
        trash = folder.with_name(f"{_TRASH}{folder.name}")
        require_leftover(trash)
        shutil.rmtree(trash, ignore_errors=True)
        folder.rename(trash)
        shutil.rmtree(trash)
