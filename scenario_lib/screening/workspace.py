"""The places beside a library that a build works in, and the checks before it may start."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from scenario_lib.errors import BuildRefusedError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.files import METADATA
from scenario_lib.screening.journal import Journal
from scenario_lib.screening.request import BuildOptions

# Two traces of one number a second, once in the journal and once in the library; a row and the resolved numbers.
_BYTES_PER_CANDIDATE = 2 * (2 * 8 * DURATION_S) + 16_384
_BYTES_PER_MB = 1e6


class Workspace:
    """Paths of one build: the target, the journal, the directory that becomes the target, and the place for a library
    that accepted nothing where another one is.
    """

    def __init__(self, out: Path) -> None:
        self.target = out.resolve()
        if not self.target.name:
            raise BuildRefusedError(f"{self.target}: cannot become a library; choose another --out")
        self.beside = self.target.with_name(f"{self.target.name}.rejected")
        self.journal = Journal(self._beside("build"))
        self.finished = self._beside("new")
        self._lock = self._beside("lock")

    def _beside(self, suffix: str) -> Path:
        return self.target.with_name(f".{self.target.name}.{suffix}")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the only right to build at this target; the system releases it if the process dies.

        Raises:
            BuildRefusedError: Another build holds it, or the parent directory cannot be written.
        """
        lock = FileLock(self._lock, timeout=0)
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise BuildRefusedError(
                f"{self.target}: another build is writing there; wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise BuildRefusedError(
                f"{self.target}: cannot write beside it ({error.strerror}: {error.filename}); choose another --out"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def require_free(self, options: BuildOptions, most_candidates: int) -> None:
        """Refuse to start over a library or an unfinished build, or on a disk that is too small.

        Raises:
            BuildRefusedError: Naming what is there and the option that goes on.
        """
        if self.target.exists() and not options.overwrite:
            raise BuildRefusedError(
                f"{self.target}: exists already; replace it with --overwrite, or choose another --out"
            )
        for place in (self.target, self.beside) if self.target.exists() else (self.target,):
            _require_replaceable(place)
        if self.journal.exists and not (options.resume or options.overwrite):
            raise BuildRefusedError(
                f"{self.journal.folder}: an unfinished build is there; continue it with --resume, or discard it with "
                f"--overwrite"
            )
        need = most_candidates * _BYTES_PER_CANDIDATE
        free = shutil.disk_usage(self.target.parent).free
        if free < need:
            raise BuildRefusedError(
                f"{self.target.parent}: {free / _BYTES_PER_MB:.0f} MB are free, {need / _BYTES_PER_MB:.0f} MB may be "
                f"needed for {most_candidates} candidates; free some, or choose another --out"
            )

    def empty_finished(self) -> Path:
        """The directory that becomes the target, empty."""
        shutil.rmtree(self.finished, ignore_errors=True)
        self.finished.mkdir()
        return self.finished


def _require_replaceable(place: Path) -> None:
    if not place.exists() or (place / METADATA).is_file():
        return
    if not place.is_dir() or any(place.iterdir()):
        raise BuildRefusedError(f"{place}: is not a library, and is never overwritten; choose another --out")
