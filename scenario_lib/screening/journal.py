"""What a build has finished so far, kept on disk candidate by candidate, so that a kill loses one at most.

A directory beside the library: `plan.json` says what is being built, `journal.jsonl` has a line per finished
candidate, `traces/` the penalty traces of those that may be accepted. Traces are written before their line, and the
line has their digests; a torn last line, or traces unlike their digest, are as if the candidate had not finished.
"""

import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from scenario_lib.errors import BuildRefusedError, LibraryError
from scenario_lib.feeders.canonical import canonical_json, first_difference
from scenario_lib.feeders.checks import STRICT
from scenario_lib.feeders.parsing import parse_as
from scenario_lib.feeders.regular_files import open_regular, read_bytes
from scenario_lib.library.files import parse_json, read_json, replacing, write_json, writing
from scenario_lib.library.ownership import finished_name
from scenario_lib.library.traces import Array, trace_digest
from scenario_lib.screening.measure import Candidate, Measured

_PLAN, _LINES, _TRACES = "plan.json", "journal.jsonl", "traces"
_TRACE_FILE = re.compile(r"\d+\.npy")


def is_journal_file(name: str) -> bool:
    """Whether a journal has a file of that name, whole or half written."""
    name = finished_name(name)
    return name in (_PLAN, _LINES) or _TRACE_FILE.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One finished candidate.

    Attributes:
        trace_digests: Of the baseline's and OFO's penalty traces; None if there are none.
        seconds: How long it took, for the build log.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    measured: Measured
    trace_digests: tuple[str, str] | None
    seconds: float


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

    def resume(self, plan: dict[str, Any]) -> dict[int, JournalLine]:
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
        return {line.measured.seed: line for line in self._lines() if self._traces_hold(line)}

    def append(self, candidate: Candidate, seconds: float) -> JournalLine:
        """Write down one finished candidate."""
        digests = None
        if candidate.traces is not None:
            baseline, ofo = candidate.traces
            digests = (trace_digest(baseline), trace_digest(ofo))
            with replacing(self._trace_path(candidate.measured.seed)) as stream:
                # By way of memory: to a file numpy writes by itself, and cannot say why that failed.
                content = io.BytesIO()
                np.lib.format.write_array(content, candidate.traces, allow_pickle=False)
                stream.write(content.getbuffer())
        line = JournalLine(candidate.measured, digests, seconds)
        path = self.folder / _LINES
        with writing(path), path.open("a", encoding="utf-8") as stream:
            stream.write(canonical_json(asdict(line)) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        return line

    def traces(self, seed: int) -> tuple[Array, Array]:
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

    def _lines(self) -> Iterator[JournalLine]:
        path = self.folder / _LINES
        if not path.exists():
            return
        for number, text in enumerate(read_bytes(path).splitlines(), start=1):
            try:
                yield parse_as(JournalLine, parse_json(text.decode()), f"{path}: line {number}")
            except (ValueError, RecursionError) as error:
                raise LibraryError(
                    f"{path}: line {number} is damaged ({error}); remove that line to measure its candidate again"
                ) from None

    def _traces_hold(self, line: JournalLine) -> bool:
        if line.trace_digests is None:
            return True
        try:
            baseline, ofo = self.traces(line.measured.seed)
        except (OSError, ValueError, EOFError):
            return False
        return line.trace_digests == (trace_digest(baseline), trace_digest(ofo))
