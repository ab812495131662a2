"""Where nights lie on disk, and how they get there so that a kill at any moment leaves nothing half done.

ROOT/current            -> nights/2026-11-30, moved in one rename, and only to a night that passed
ROOT/nights/2026-11-30  a library that passed, with 2026-11-30.json beside it
ROOT/failed/2026-11-29  one that did not, likewise
ROOT/work/              the build that is under way
"""

import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from scenario_lib.errors import BuildRefusedError, NightBusyError
from scenario_lib.library.file_lock import exclusive
from scenario_lib.library.files import write_json
from scenario_lib.library.ownership import is_library_file, require_leftover, require_replaceable
from scenario_lib.library.publish import sync, sync_directory
from scenario_lib.screening.journal import is_journal_file

logger = logging.getLogger(__name__)

_TRASH = ".trash-"


class Shelf:
    """Nights of one kind, in one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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
        write_json(self.folder / f"{night.isoformat()}.json", report)

    def nights(self) -> list[date]:
        """Nights of which there is a library or a report, newest first."""
        if not self.folder.is_dir():
            return []
        names = {path.name.removesuffix(".json") for path in self.folder.iterdir() if not path.name.startswith(".")}
        return sorted((date.fromisoformat(name) for name in names), reverse=True)

    def prune(self, keep: int, spare: date | None = None) -> None:
        """Remove all but the newest, and never the one that is spared."""
        for night in self.nights()[keep:]:
            if night != spare and _is_removable(self.library(night)):
                _discard(self.library(night))
                (self.folder / f"{night.isoformat()}.json").unlink(missing_ok=True)

    def sweep(self) -> None:
        """Finish removals that were interrupted."""
        for leftover in self.folder.glob(f"{_TRASH}*"):
            require_leftover(leftover)
            shutil.rmtree(leftover)


class NightFolders:
    """All places of a nightly run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.good = Shelf(root / "nights")
        self.failed = Shelf(root / "failed")
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
        require_leftover(self._work, _is_work)
        require_replaceable(self.failed.library(night))
        wanted = self._work / night.isoformat()
        wanted.mkdir(parents=True, exist_ok=True)
        for other in self._work.iterdir():
            if other != wanted:
                shutil.rmtree(other)
        for shelf in (self.good, self.failed):
            shelf.sweep()
        return wanted

    def forget_work(self) -> None:
        """Remove what builds left."""
        shutil.rmtree(self._work, ignore_errors=True)

    def current(self) -> date | None:
        """The night that the pointer names."""
        return date.fromisoformat(self.pointer.readlink().name) if self.pointer.is_symlink() else None

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
