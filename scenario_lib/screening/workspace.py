"""The places beside a library that a build works in, and the checks before it may start."""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from scenario_lib.errors import BuildRefusedError, UnwritableFileError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.ownership import require_apart, require_leftover, require_replaceable
from scenario_lib.library.place import beside, claimed, require_place, resolved_target
from scenario_lib.screening.journal import Journal, is_journal_file
from scenario_lib.screening.request import BuildOptions, CandidateRequest

# A record has two traces of one number a second; a candidate a line or row with its figures and drawn numbers.
_BYTES_PER_RECORD = 2 * 8 * DURATION_S
_BYTES_PER_CANDIDATE = 4096
_COPIES = 2
"""Once in the journal, once in the library."""

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

    def require_free(self, options: BuildOptions, requests: Sequence[CandidateRequest]) -> None:
        """Refuse to start over a library or an unfinished build, or on a disk that will probably be too small.

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
        if not (options.resume and self.journal.exists):
            self._require_likely(requests)

    def _require_likely(self, requests: Sequence[CandidateRequest]) -> None:
        """Refuse a disk too small for what is likely: that half of the candidates are accepted."""
        candidates = sum(request.likely_candidates for request in requests)
        records = sum(request.likely_records for request in requests)
        need, free = _COPIES * _size(candidates, records), self._free()
        if free >= need:
            return
        fitting = candidates * free // need
        raise BuildRefusedError(
            f"{self.target.parent}: {_mb(free)} are free, {_mb(need)} are likely to be needed for {candidates} "
            f"candidates with {records} accepted; at most about {fitting} candidates fit: ask for fewer (--candidates, "
            f"--accept, --max-candidates), free some, or choose another --out"
        )

    def require_room(self, candidates: int, records: int) -> None:
        """Stop a build while the library of what is finished can still be written.

        Raises:
            UnwritableFileError: Naming the folder, and how to go on.
        """
        need, free = _size(candidates, records), self._free()
        if free < need:
            raise UnwritableFileError(
                f"{self.target.parent}: {_mb(free)} are free, {_mb(need)} are needed to write the library; what is "
                f"finished is kept in {self.journal.folder}: free some, and go on with --resume"
            )

    def _free(self) -> int:
        return shutil.disk_usage(self.target.parent).free

    def empty_finished(self) -> Path:
        """The directory that becomes the target, empty."""
        require_leftover(self.finished)
        shutil.rmtree(self.finished, ignore_errors=True)
        self.finished.mkdir()
        return self.finished


def _size(candidates: int, records: int) -> int:
    """Bytes of one copy, in a journal or a library."""
    return candidates * _BYTES_PER_CANDIDATE + records * _BYTES_PER_RECORD


def _mb(size: int) -> str:
    return f"{size / _BYTES_PER_MB:.0f} MB"
