"""Validate a library: files unchanged, every record drawn again, rollouts replayed and compared bit for bit."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from scenario_lib._values import instance_of
from scenario_lib.library.layout import METADATA
from scenario_lib.library.library import AnyLibrary, ScenarioLibrary, library_path
from scenario_lib.library.recipe import RolloutInputs
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.views import spread_records
from scenario_lib.validation.checks import (
    Circumstances,
    check_files,
    check_records,
    damaged_files,
    stream_notes,
    version_notes,
)
from scenario_lib.validation.findings import Cause, Finding, Grade, RecordVerdict, all_causes, worst
from scenario_lib.validation.replay import ReplayOptions, check_replays

__all__ = ["Cause", "Finding", "Grade", "RecordVerdict", "ReplayOptions", "ValidationReport", "validate_library"]


@dataclass(frozen=True, slots=True, repr=False)
class ValidationReport:
    """Findings of a validation.

    Attributes:
        records: Records in the library.
        replayed: Records whose rollouts were run again.
        verdicts: One per record, in their order.
        from_numbers: Scenarios were made of stored numbers; nothing was drawn.
    """

    path: Path
    records: int
    replayed: int
    findings: tuple[Finding, ...]
    verdicts: tuple[RecordVerdict, ...] = ()
    from_numbers: bool = False

    def __repr__(self) -> str:
        return f"ValidationReport({str(self.path)!r}: {self.grade}; {self.replayed} of {self.records} records replayed)"

    @property
    def grade(self) -> Grade:
        """The worst of the findings."""
        return worst(self.findings)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Possible causes of the findings that are more than notes."""
        return all_causes(finding for finding in self.findings if finding.grade is not Grade.HELD)


_DEFAULTS = ReplayOptions()


def validate_library(path: AnyLibrary, options: ReplayOptions = _DEFAULTS) -> ValidationReport:
    """Check files, draws and, if asked for, rollouts.

    Args:
        path: Of the library, or the opened one, which is opened anew: what is verified is what is on disk now.

    Raises:
        InvalidSettingError: Options of another type.
        LibraryError: The library cannot even be opened, or has no numbers to make scenarios of.
    """
    instance_of(ReplayOptions)("options", options)
    library = ScenarioLibrary(library_path("path", path), from_numbers=options.from_numbers)
    findings = _check_without_rollouts(library)
    if not library.contents.digests and options.records is not None:
        text = f"{library.path / METADATA}: has no digests, so only a replay of all records can verify it"
        findings.append(Finding(Grade.NOT_VERIFIABLE, text))
    replayed: list[ScenarioRecord] = []
    # Rollouts of scenarios that are not the screened ones would prove nothing.
    if not any(finding.grade is Grade.DIFFERS for finding in findings):
        replayed = spread_records(library, options.records)
        findings += check_replays(library, replayed, options)
    return ValidationReport(
        path=library.path,
        records=len(library),
        replayed=len(replayed),
        findings=tuple(findings),
        verdicts=_verdicts(library, replayed, findings),
        from_numbers=options.from_numbers,
    )


def _check_without_rollouts(library: ScenarioLibrary) -> list[Finding]:
    """Findings on files and records; notes on numpy and versions before them where they may explain something."""
    stream, versions = tuple(stream_notes(library)), tuple(version_notes(library))
    damaged = damaged_files(library)
    edited = frozenset(name for name, recipe in library.recipes.items() if name and recipe.id != name)
    inputs = {name: RolloutInputs(recipe) for name, recipe in library.recipes.items()}
    around = Circumstances(all_causes((*stream, *versions)), frozenset(damaged), edited, inputs)
    found = [*check_files(library, damaged), *check_records(library, around)]
    return [*stream, *versions, *found] if found else found


def _verdicts(
    library: ScenarioLibrary, replayed: list[ScenarioRecord], findings: list[Finding]
) -> tuple[RecordVerdict, ...]:
    by_record: dict[int | None, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_record[finding.record].append(finding)
    ran = {record.index for record in replayed}
    return tuple(
        RecordVerdict(
            seed=record.seed,
            recipe="" if record.digests is None else record.digests.recipe,
            grade=worst(by_record[record.index]),
            replayed=record.index in ran,
            causes=all_causes(by_record[record.index]),
        )
        for record in library
    )
