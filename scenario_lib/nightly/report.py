"""How a night ended."""

from dataclasses import asdict, dataclass, field
from datetime import date
from enum import IntEnum
from pathlib import Path
from typing import Any


class Outcome(IntEnum):
    """How a night ended; the values are the exit codes of `scenario-lib nightly`."""

    PUBLISHED = 0
    BUILD_FAILED = 10
    NOT_VALID = 11
    TOO_DIFFERENT = 12
    BUSY = 75  # EX_TEMPFAIL of sysexits.h: trying again later may succeed


@dataclass(frozen=True, slots=True)
class NightReport:
    """What a night did.

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
    outcome: Outcome = Outcome.PUBLISHED
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
        return self.outcome is Outcome.PUBLISHED

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
