"""Where nights lie on disk, and how they get there so that a kill at any moment leaves nothing half done.

ROOT/current            -> nights/2026-11-30, moved in one rename, and only to a night that passed
ROOT/nights/2026-11-30  a library that passed, with 2026-11-30.json beside it
ROOT/failed/2026-11-29  one that did not, likewise
ROOT/work/              the build that is under way
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from scenario_lib.errors import NightBusyError
from scenario_lib.library.files import write_json
from scenario_lib.library.publish import sync, sync_directory

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
            if night != spare:
                _discard(self.library(night))
                (self.folder / f"{night.isoformat()}.json").unlink(missing_ok=True)

    def sweep(self) -> None:
        """Finish removals that were interrupted."""
        for leftover in self.folder.glob(f"{_TRASH}*"):
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
        self.root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.root / ".nightly.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise NightBusyError(f"{self.root}: another nightly run is under way; this one did nothing") from None
        try:
            yield
        finally:
            lock.release()

    def work(self, night: date) -> Path:
        """The directory of a night's build; what is there of the same night stays, other nights are removed."""
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


def _discard(folder: Path) -> None:
    """Remove a directory so that nobody sees half of it."""
    if folder.exists():
        trash = folder.with_name(f"{_TRASH}{folder.name}")
        shutil.rmtree(trash, ignore_errors=True)
        folder.rename(trash)
        shutil.rmtree(trash)
