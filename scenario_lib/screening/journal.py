"""What a build has finished so far, kept on disk candidate by candidate, so that a kill loses one at most.

A directory beside the library: `plan.json` says what is being built, `journal.jsonl` has a line per finished
candidate, `traces/` the penalty traces of those that may be accepted. Traces are written before their line, and the
line has their digests; a torn last line, or traces unlike their digest, are as if the candidate had not finished.

The places beside a library that a build works in, and the checks before it may start.
"""

import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib._files import (
    canonical_json,
    first_difference,
    open_regular,
    parse_json,
    read_bytes,
    read_json,
    replacing,
    write_json,
    writing,
)
from scenario_lib._parsing import parse_as
from scenario_lib.errors import BuildRefusedError, DataFileError, LibraryError, UnwritableFileError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.npz_store import trace_digest
from scenario_lib.library.place import (
    beside,
    claimed,
    finished_name,
    require_apart,
    require_leftover,
    require_place,
    require_replaceable,
    resolved_target,
)
from scenario_lib.screening.candidate import Candidate
from scenario_lib.screening.request import BuildOptions, CandidateRequest

_PLAN, _LINES, _TRACES = "plan.json", "journal.jsonl", "traces"
_TRACE_FILE = re.compile(r"\d+\.npy")


def is_journal_file(name: str) -> bool:
    """Whether a journal has a file of that name, whole or half written."""
    name = finished_name(name)
    return name in (_PLAN, _LINES) or _TRACE_FILE.fullmatch(name) is not None


class Journal:
    """The journal of one build; open it with `start` or `resume`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def exists(self) -> bool:
        return (self.folder / _PLAN).is_file()

    def start(self, plan: dict[str, Any]) -> None:
        """Begin an empty journal, discarding what was there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / _TRACES).mkdir(parents=True)
        write_json(self.folder / _PLAN, plan)

    def resume(self, plan: dict[str, Any]) -> dict[int, Candidate]:
        """The finished candidates by seed, if the plan is the one that they were measured under.

        Raises:
            BuildRefusedError: Settings, data or versions changed; the message names the first difference.
        """
        stored = read_json(self.folder / _PLAN)
        difference = first_difference(json.loads(canonical_json(plan)), stored)
        if difference:
            raise BuildRefusedError(
                f"{self.folder}: the unfinished build was started otherwise: {difference}. Use the same settings, "
                f"data and versions, or discard it with --overwrite"
            )
        self._drop_torn_line()
        return {candidate.seed: candidate for candidate in self._candidates() if self._traces_hold(candidate)}

    def append(self, candidate: Candidate, traces: Floats | None, seconds: float) -> Candidate:
        """Write down one finished candidate, and return it as it will be read again.

        Args:
            candidate: Its figures.
            traces: Its (baseline, OFO) penalty traces, shape (2, T), if they are to be kept.
            seconds: How long it took in its worker.
        """
        finished = replace(candidate, trace_digests=self._keep(candidate.seed, traces), seconds=seconds)
        path = self.folder / _LINES
        with writing(path), path.open("a", encoding="utf-8") as stream:
            stream.write(canonical_json(_line_of(finished)) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        return finished

    def _keep(self, seed: int, traces: Floats | None) -> tuple[str, str] | None:
        """Write traces, if there are any, and return their digests."""
        if traces is None:
            return None
        baseline, ofo = traces
        digests = (trace_digest(baseline), trace_digest(ofo))
        with replacing(self._trace_path(seed)) as stream:
            # By way of memory: to a file numpy writes by itself, and cannot say why that failed.
            content = io.BytesIO()
            np.lib.format.write_array(content, traces, allow_pickle=False)
            stream.write(content.getbuffer())
        return digests

    def traces(self, seed: int) -> tuple[Floats, Floats]:
        """The (baseline, OFO) penalty traces of one candidate."""
        with open_regular(self._trace_path(seed)) as stream:
            baseline, ofo = np.load(stream, allow_pickle=False)
        return baseline, ofo

    def discard(self) -> None:
        """Remove the journal."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _trace_path(self, seed: int) -> Path:
        return self.folder / _TRACES / f"{seed}.npy"

    def _drop_torn_line(self) -> None:
        path = self.folder / _LINES
        if not path.exists():
            return
        content = read_bytes(path)
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            with path.open("r+b") as stream:
                stream.truncate(len(whole))

    def _candidates(self) -> Iterator[Candidate]:
        path = self.folder / _LINES
        if not path.exists():
            return
        for number, text in enumerate(read_bytes(path).splitlines(), start=1):
            try:
                yield _candidate_of(parse_json(text.decode()), f"{path}: line {number}")
            except (ValueError, RecursionError) as error:
                raise LibraryError(
                    f"{path}: line {number} is damaged ({error}); remove that line to measure its candidate again"
                ) from None

    def _traces_hold(self, candidate: Candidate) -> bool:
        if candidate.trace_digests is None:
            return True
        try:
            baseline, ofo = self.traces(candidate.seed)
        except (OSError, ValueError, EOFError):
            return False
        return candidate.trace_digests == (trace_digest(baseline), trace_digest(ofo))


_BESIDE_FIGURES = ("trace_digests", "seconds")


def _line_of(candidate: Candidate) -> dict[str, Any]:
    """A line of the journal: the figures in a table of their own; there is no verdict before all are measured."""
    figures = asdict(candidate)
    del figures["reason"]
    return {name: figures.pop(name) for name in _BESIDE_FIGURES} | {"measured": figures}


def _candidate_of(line: Any, source: str) -> Candidate:
    if not isinstance(line, dict) or not isinstance(figures := line.pop("measured", None), dict):
        raise DataFileError(f"{source}: has no table 'measured'")
    return parse_as(Candidate, {**figures, **line}, source)


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
            UnwritableFileError: Naming the folder; see `resumable`.
        """
        need, free = _size(candidates, records), self._free()
        if free < need:
            raise UnwritableFileError(
                f"{self.target.parent}: {_mb(free)} are free, {_mb(need)} are needed to write the library"
            )

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Around a build that has a journal: a disk that fills up, whenever that is noticed, is told with the remedy.

        Raises:
            UnwritableFileError: As from the block, naming the journal, and how to go on.
        """
        try:
            yield
        except UnwritableFileError as error:
            raise UnwritableFileError(
                f"{error}; what is finished is kept in {self.journal.folder}: make room, and go on with --resume"
            ) from None

    def _free(self) -> int:
        return shutil.disk_usage(self.target.parent).free

    def empty_finished(self) -> Path:
        """The directory that becomes the target, empty."""
        require_leftover(self.finished)
        shutil.rmtree(self.finished, ignore_errors=True)
        with writing(self.finished):
            self.finished.mkdir()
        return self.finished


def _size(candidates: int, records: int) -> int:
    """Bytes of one copy, in a journal or a library."""
    return candidates * _BYTES_PER_CANDIDATE + records * _BYTES_PER_RECORD


def _mb(size: int) -> str:
    return f"{size / _BYTES_PER_MB:.0f} MB"
