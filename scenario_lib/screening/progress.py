"""How far a build is, over all its strata."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scenario_lib.screening.planned import PlannedStratum
from scenario_lib.screening.request import CandidateRequest


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is.

    Attributes:
        total: Candidates in all, or the number to accept.
        done: Of these.
        accepted: Accepted so far.
    """

    total: int
    done: int
    accepted: int


ProgressHook = Callable[[Progress], None]


class Tally:
    """Progress over all strata, of which one is under way."""

    def __init__(self, on_progress: ProgressHook, strata: Sequence[PlannedStratum]) -> None:
        self._on_progress = on_progress
        self._total = sum(_size(stratum.request) for stratum in strata)
        self._now = self._before = Progress(self._total, 0, 0)

    @property
    def accepted(self) -> int:
        """Accepted so far."""
        return self._now.accepted

    def begin_stratum(self) -> None:
        """What is reached now stays, and the next stratum adds to it."""
        self._before = self._now

    def show(self, done: int, accepted: int) -> None:
        """How far the stratum under way is."""
        self._now = Progress(self._total, self._before.done + done, self._before.accepted + accepted)
        self._on_progress(self._now)


def _size(request: CandidateRequest) -> int:
    return request.goal.total or request.most_candidates
