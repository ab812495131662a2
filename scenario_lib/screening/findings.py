"""What a validation finds, and how bad it is."""

from dataclasses import dataclass
from enum import IntEnum


class Grade(IntEnum):
    """Verdict on a library; the values are the exit codes of `scenario-lib validate`."""

    HELD = 0
    DIFFERS = 1
    NOT_VERIFIABLE = 3
    WITHIN_TOLERANCE = 4


# From good to bad: the grade of a library is the worst of its findings.
_SEVERITY = (Grade.HELD, Grade.WITHIN_TOLERANCE, Grade.NOT_VERIFIABLE, Grade.DIFFERS)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked and did not simply hold; with grade HELD, a note that may explain others."""

    grade: Grade
    message: str


def worst(findings: tuple[Finding, ...]) -> Grade:
    """The worst grade among findings; HELD without any."""
    return max((finding.grade for finding in findings), key=_SEVERITY.index, default=Grade.HELD)
