"""Findings of a validation, with their grades and possible causes."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Grade(IntEnum):
    """Verdict on a record or a library.

    HELD is identical, bit for bit; WITHIN_TOLERANCE identical within the tolerance that `replay.py` states. EXPLAINED:
    on the other engine OFO decided otherwise, on a rounding boundary, and what followed differs; the verdict does not.
    """

    HELD = 0
    DIFFERS = 1
    NOT_VERIFIABLE = 3
    WITHIN_TOLERANCE = 4
    EXPLAINED = 5

    @property
    def exit_code(self) -> int:
        """What `scenario-lib validate` ends with: the value, but rounding is no fault of anything."""
        return 0 if self is Grade.EXPLAINED else int(self)


# From good to bad: the grade of a library is the worst of its findings.
_SEVERITY = (Grade.HELD, Grade.WITHIN_TOLERANCE, Grade.EXPLAINED, Grade.NOT_VERIFIABLE, Grade.DIFFERS)


class Cause(StrEnum):
    """Why something is not what it was when the library was built.

    CIRCUIT, MODELS, TRAINING_TRACE, EXPERIMENT: Data here are others. RANDOM_STREAM: numpy draws otherwise.
    VERSIONS: Another numpy, openg2g, OpenDSS, numba or scenario-lib. CPU_FEATURES: A processor with other vector
    instructions, or another BLAS kernel. EDITED_RECORD, EDITED_RECIPE: Someone changed a library, digests of files
    included. DAMAGED_FILE: A file is not the one that was written.
    """

    CIRCUIT = "circuit"
    MODELS = "models"
    TRAINING_TRACE = "training_trace"
    EXPERIMENT = "experiment"
    RANDOM_STREAM = "random_stream"
    VERSIONS = "versions"
    CPU_FEATURES = "cpu_features"
    EDITED_RECORD = "edited_record"
    EDITED_RECIPE = "edited_recipe"
    DAMAGED_FILE = "damaged_file"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked and did not simply hold; with grade HELD, a note that may explain others.

    Attributes:
        causes: What may have caused it, as far as that can be told.
        record: Position of the record that it is about; None for the library as a whole.
    """

    grade: Grade
    message: str
    causes: tuple[Cause, ...] = ()
    record: int | None = None


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """Verdict on one record.

    Attributes:
        recipe: Identifier of its recipe; empty in a library without digests.
        replayed: Whether its rollouts were run again.
    """

    seed: int
    recipe: str
    grade: Grade
    replayed: bool
    causes: tuple[Cause, ...]


def worst(findings: Iterable[Finding]) -> Grade:
    """The worst grade among findings; HELD without any."""
    return max((finding.grade for finding in findings), key=_SEVERITY.index, default=Grade.HELD)


def all_causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """The causes that findings name, each once, in the order of `Cause`."""
    named = {cause for finding in findings for cause in finding.causes}
    return tuple(cause for cause in Cause if cause in named)
