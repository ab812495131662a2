"""The places beside a library that a build works in, and the checks before it may start."""

import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from scenario_lib.errors import BuildRefusedError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.ownership import require_apart, require_leftover, require_replaceable
from scenario_lib.library.place import beside, claimed, require_place, resolved_target
from scenario_lib.screening.journal import Journal, is_journal_file
from scenario_lib.screening.request import BuildOptions

# Two traces of one number a second, once in the journal and once in the library; a row and the resolved numbers.
_BYTES_PER_CANDIDATE = 2 * (2 * 8 * DURATION_S) + 16_384
_BYTES_PER_MB = 1e6


class Workspace:
    """Paths of one build: the target, the journal, the directory that becomes the target, and the place for a library
    that accepted nothing where another one is.
    """

    def __init__(self, out: Path) -> None:
        self.target = resolved_target(out)
        self.beside = self.target.with_name(f"{self.target.name}.rejected")
        self.journal = Journal(beside(self.target, "build"))
        self.finished = beside(self.target, "new")

    def claimed(self) -> AbstractContextManager[None]:
        """Hold the only right to build at this target; see `library.place.claimed`."""
        return claimed(self.target)

    def require_apart(self, source: Path) -> None:
        """Refuse to build where a library lies that is read for it.

        Raises:
            BuildRefusedError: Naming both.
        """
        for place in (self.target, self.beside, self.journal.folder, self.finished):
            require_apart(place, [source])

    def require_free(self, options: BuildOptions, most_candidates: int) -> None:
        """Refuse to start over a library or an unfinished build, or on a disk that is too small.

        Raises:
            BuildRefusedError: Naming what is there and the option that goes on.
        """
        require_place(self.target, options.overwrite)
        if self.target.exists():
            require_replaceable(self.beside)
        require_leftover(self.journal.folder, is_journal_file)
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
        require_leftover(self.finished)
        shutil.rmtree(self.finished, ignore_errors=True)
        self.finished.mkdir()
        return self.finished
