"""Validate a library: files unchanged, every record drawn again, rollouts replayed and compared bit for bit."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np

from scenario_lib.errors import LibraryError, ScenarioLibError
from scenario_lib.feeders.canonical import file_digest
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.columns import column_of
from scenario_lib.library.files import CANDIDATES, METADATA
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.view import spread_records
from scenario_lib.screening.findings import Finding, Grade, worst
from scenario_lib.screening.replay import ReplayOptions, check_replays

__all__ = ["Finding", "Grade", "ReplayOptions", "ValidationReport", "validate_library"]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """What a validation found.

    Attributes:
        records: Records in the library.
        replayed: Records whose rollouts were run again.
    """

    path: Path
    records: int
    replayed: int
    findings: tuple[Finding, ...]

    @property
    def grade(self) -> Grade:
        """The worst of the findings."""
        return worst(self.findings)


def validate_library(path: Path, options: ReplayOptions) -> ValidationReport:
    """Check files, draws and, if asked for, rollouts.

    Raises:
        LibraryError: The library cannot even be opened.
    """
    library = ScenarioLibrary(path)
    findings = [*_check_files(library), *_check_draws(library)]
    if not library.contents.digests and options.records is not None:
        text = f"{library.path / METADATA}: has no digests, so only a replay of all records can verify it"
        findings.append(Finding(Grade.NOT_VERIFIABLE, text))
    replayed: list[ScenarioRecord] = []
    # Rollouts of scenarios that are not the screened ones would prove nothing.
    if not any(finding.grade is Grade.DIFFERS for finding in findings):
        replayed = spread_records(library, options.records)
        findings += check_replays(library, replayed, options)
    return ValidationReport(library.path, len(library), len(replayed), tuple(findings))


def _check_files(library: ScenarioLibrary) -> Iterator[Finding]:
    digests = library.contents.digests
    if not digests:
        return
    for name in library.contents.files:
        file = library.path / name
        if not file.is_file():
            yield Finding(Grade.DIFFERS, f"{file}: missing")
        elif file_digest(file) != digests.get(name):
            yield Finding(Grade.DIFFERS, f"{file}: is not the file that was written (its digest differs)")
    try:
        rows = read_candidates(library.path / CANDIDATES)
        seeds, accepted = (rows.column(name).to_pylist() for name in ("seed", "accepted"))
        if list(compress(seeds, accepted)) != column_of(library.scenarios, "seed").tolist():
            text = f"{library.path / CANDIDATES}: accepted seeds are not those of {METADATA}"
            yield Finding(Grade.DIFFERS, text)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error))


def _check_draws(library: ScenarioLibrary) -> Iterator[Finding]:
    for record in library:
        try:
            library.materialize(record)
            for trace in (record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step):
                if len(trace) != DURATION_S or not np.all(np.isfinite(trace)):
                    text = f"{library.path}: a trace of seed {record.seed} is not {DURATION_S} finite numbers"
                    yield Finding(Grade.DIFFERS, text)
        except ScenarioLibError as error:
            yield Finding(Grade.DIFFERS, str(error))
