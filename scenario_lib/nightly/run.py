"""How a night ended.

A night: build, validate, compare with the last good night, publish. Each step may end it; none can be half done.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from enum import IntEnum
from pathlib import Path
from typing import Any

from scenario_lib.analysis.diff import LibraryDiff, diff_libraries
from scenario_lib.analysis.info import library_info
from scenario_lib.errors import BuildRefusedError, InvalidSettingError, ScenarioLibError
from scenario_lib.execution.tasks import RunOptions, one_line
from scenario_lib.nightly.archive import NightFolders, latest_night
from scenario_lib.nightly.config import NightlyLimits, NightPlan
from scenario_lib.screening.build import ProgressHook, build_strata
from scenario_lib.screening.criteria import FAILED
from scenario_lib.screening.recipe_file import planned
from scenario_lib.screening.request import BuildOptions
from scenario_lib.simulation.engines import REFERENCE, Engine
from scenario_lib.validation.findings import Grade
from scenario_lib.validation.replay import FlipLimits, ReplayOptions
from scenario_lib.validation.validate import ValidationReport, validate_library


class NightOutcome(IntEnum):
    """Ends of a night; the values are the exit codes of `scenario-lib nightly`."""

    PUBLISHED = 0
    BUILD_FAILED = 10
    NOT_VALID = 11
    TOO_DIFFERENT = 12
    BUSY = 75  # EX_TEMPFAIL of sysexits.h: trying again later may succeed


@dataclass(frozen=True, slots=True)
class NightReport:
    """Outcome of a night.

    Attributes:
        night: The day that names it.
        outcome: How it ended.
        message: Why, in a sentence.
        library: Where its library is, if there is one.
        candidates, accepted, failed: Rows of the candidates table; records; candidates that say nothing.
        grade, reference_grade: Verdicts of the validation on the own engine, and on the reference engine.
        against: The night that it was compared with.
        lost, gained, changed, flipped: Counts of that comparison; flips are those of acceptance.
        provenance: What changed in versions, data and settings.
        seconds: How long each stage took (s).
    """

    night: date
    outcome: NightOutcome = NightOutcome.PUBLISHED
    message: str = "published"
    library: Path | None = None
    candidates: int = 0
    accepted: int = 0
    failed: int = 0
    grade: str | None = None
    reference_grade: str | None = None
    against: date | None = None
    lost: int | None = None
    gained: int | None = None
    changed: int | None = None
    flipped: int | None = None
    provenance: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing has spoken against publishing so far."""
        return self.outcome is NightOutcome.PUBLISHED

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for one line of JSON."""
        return {
            **asdict(self),
            "night": self.night.isoformat(),
            "outcome": self.outcome.name.lower(),
            "exit_code": int(self.outcome),
            "library": None if self.library is None else str(self.library),
            "against": None if self.against is None else self.against.isoformat(),
            "provenance": list(self.provenance),
        }


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Night:
    """One night of a plan.

    Attributes:
        date: The day that names it, and from which its seeds follow.
        run: Workers, and the longest time of a candidate.
        on_progress: Called as candidates finish.
    """

    plan: NightPlan
    date: date
    run: RunOptions = RunOptions()
    on_progress: ProgressHook = lambda _: None


def run_night(night: Night) -> NightReport:
    """Carry out a night, and publish it if it passes.

    A night that was interrupted goes on where it stopped; one that is published already is left as it is.

    Raises:
        InvalidSettingError: The night lies in the future; nothing was done.
        BuildRefusedError: Something else has its place; nothing was done.
        NightBusyError: Another run is under way in the same directory; nothing was done.
        KeyboardInterrupt: Interrupted; the same call goes on.
    """
    _require_not_ahead(night.date)
    folders = NightFolders(night.plan.root)
    with folders.claimed():
        for shelf in (folders.good, folders.failed):
            shelf.require_place(night.date)
        if folders.good.library(night.date).is_dir():
            return _already_published(night, folders)
        work = folders.work(night.date)
        report = NightReport(night.date)
        for stage, step in (("build", _build), ("validate", _validate), ("compare", _compare)):
            if report.passed:
                report = _timed(stage, step, night, work / "library", report)
        report = _put_away(report, folders, work / "library")
        spared = {day for day in (folders.current(), night.date) if day is not None}
        folders.good.prune(night.plan.config.keep.good, spared)
        folders.failed.prune(night.plan.config.keep.failed)
        return report


def _require_not_ahead(night: date) -> None:
    latest = latest_night()
    if night > latest:
        raise InvalidSettingError(f"night: found {night}, which lies in the future; expected a day up to {latest}")


Step = Callable[[Night, Path, NightReport], NightReport]


def _timed(stage: str, step: Step, night: Night, library: Path, report: NightReport) -> NightReport:
    """One step, with its duration; whatever it raises ends the night with a report."""
    logger.info("%s: %s", night.date, stage)
    started = time.monotonic()
    try:
        report = step(night, library, report)
    except Exception as error:  # a nightly run answers with its line of JSON, whatever happened
        if not isinstance(error, ScenarioLibError | OSError):
            logger.exception("%s: %s failed", night.date, stage)
        report = replace(report, outcome=_FAILURE_OF[stage], message=f"{stage}: {one_line(error)}")
    return replace(report, seconds={**report.seconds, stage: round(time.monotonic() - started, 3)})


_FAILURE_OF = {
    "build": NightOutcome.BUILD_FAILED,
    "validate": NightOutcome.NOT_VALID,
    "compare": NightOutcome.TOO_DIFFERENT,
}


def _already_published(night: Night, folders: NightFolders) -> NightReport:
    """A night whose library is in its place; only the pointer may be behind, if a run was killed just before."""
    library = folders.good.library(night.date)
    report = _counted(NightReport(night.date, library=library), library)
    return _pointed_at(replace(report, message="was published already"), folders)


def _pointed_at(report: NightReport, folders: NightFolders) -> NightReport:
    """The report of a published night, once the pointer has moved to it, or else saying why it has not."""
    if folders.advance(report.night):
        return report
    why = f"{folders.pointer} was not put there by a night and is left as it is: move it away, and run this again"
    return replace(report, message=f"{report.message}; {why}")


def _build(night: Night, library: Path, report: NightReport) -> NightReport:
    strata = planned(night.plan.strata(night.date), night.plan.specs_dir)
    options = BuildOptions(
        library, night.run.jobs, night.run.timeout_s, resume=True, overwrite=True, cluster=night.run.cluster
    )
    try:
        build_strata(strata, options, night.on_progress)
    except BuildRefusedError as refused:
        # Nobody is there to decide: what was begun under other settings, data or versions is begun again.
        logger.warning("%s: begun again: %s", night.date, refused)
        build_strata(strata, replace(options, resume=False), night.on_progress)
    report = _counted(replace(report, library=library), library)
    limits = night.plan.config.limits
    if report.accepted < limits.min_accepted:
        return _ended(
            report, NightOutcome.BUILD_FAILED, f"{report.accepted} accepted, fewer than {limits.min_accepted}"
        )
    if limits.max_failed is not None and report.failed > limits.max_failed:
        return _ended(report, NightOutcome.BUILD_FAILED, f"{report.failed} candidates failed, over {limits.max_failed}")
    return report


def _counted(report: NightReport, library: Path) -> NightReport:
    info = library_info(library)
    failed = sum(count for reason, count in info.reasons.items() if reason in FAILED)
    return replace(report, candidates=sum(info.reasons.values()), accepted=info.records, failed=failed)


def _validate(night: Night, library: Path, report: NightReport) -> NightReport:
    samples = night.plan.config.replay
    options = ReplayOptions(samples.own, night.plan.specs_dir, run=night.run)
    own = validate_library(library, options)
    report = replace(report, grade=own.grade.name.lower())
    if own.grade is not Grade.HELD:
        return _ended(report, NightOutcome.NOT_VALID, _against(own))
    if samples.reference == 0:
        return report
    flips = FlipLimits(records=night.plan.config.limits.max_explained)
    on_reference = replace(options, records=samples.reference, engine=Engine(REFERENCE), flips=flips)
    other = validate_library(library, on_reference)
    report = replace(report, reference_grade=other.grade.name.lower())
    if other.grade not in (Grade.HELD, Grade.WITHIN_TOLERANCE, Grade.EXPLAINED):
        return _ended(report, NightOutcome.NOT_VALID, _against(other))
    return report


def _against(report: ValidationReport) -> str:
    """What a validation found against a library."""
    return "; ".join(finding.message for finding in report.findings if finding.grade is not Grade.HELD)


def _compare(night: Night, library: Path, report: NightReport) -> NightReport:
    folders = NightFolders(night.plan.root)
    against = folders.last_good()
    if against is None:
        return report
    diff = diff_libraries(folders.good.library(against), library)
    report = replace(
        report,
        against=against,
        lost=len(diff.lost),
        gained=len(diff.gained),
        changed=len(diff.changed),
        flipped=_flipped(diff),
        provenance=tuple(str(change) for change in diff.provenance),
    )
    exceeded = list(_exceeded(diff, night.plan.config.limits))
    return _ended(report, NightOutcome.TOO_DIFFERENT, "; ".join(exceeded)) if exceeded else report


def _flipped(diff: LibraryDiff) -> int:
    return sum(flip.changes_acceptance for flip in diff.flipped)


def _exceeded(diff: LibraryDiff, limits: NightlyLimits) -> Iterator[str]:
    """The limits that a comparison is beyond."""
    shifts = {shift.quantity: abs(shift.effect) for shift in diff.shifts}
    distance = max((effect for name, effect in shifts.items() if name.endswith("of records")), default=0.0)
    for what, found, limit in (
        ("records lost or changed", len(diff.lost) + len(diff.changed), limits.max_lost),
        ("verdicts flipped", _flipped(diff), limits.max_flipped),
        ("change of the acceptance", shifts.get("acceptance", 0.0), limits.max_acceptance_change),
        ("distance of the records' distributions", distance, limits.max_distance),
    ):
        if limit is not None and found > limit:
            yield f"{what}: {found:.4g}, over the limit {limit:g}"


def _ended(report: NightReport, outcome: NightOutcome, message: str) -> NightReport:
    return replace(report, outcome=outcome, message=message)


def _put_away(report: NightReport, folders: NightFolders, library: Path) -> NightReport:
    """Publish a night that passed; keep one that did not for looking at, its build for going on if it has none."""
    if report.passed:
        report = replace(report, library=folders.good.library(report.night))
        folders.good.put(library, report.night, report.to_dict())
        report = _pointed_at(report, folders)
        folders.forget_work(report.night)
    elif library.is_dir():
        report = replace(report, library=folders.failed.library(report.night))
        folders.failed.put(library, report.night, report.to_dict())
        folders.forget_work(report.night)
    else:
        folders.failed.note(report.night, report.to_dict())
    return report
