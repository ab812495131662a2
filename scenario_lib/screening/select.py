"""Choose from measured candidates: caps and targets, in seed order, whatever order the workers finished in."""

from collections.abc import Iterable
from dataclasses import dataclass

from scenario_lib.screening.criteria import Reason, ScreeningCriteria, judge, judge_baseline
from scenario_lib.screening.measure import Measured


@dataclass(frozen=True, slots=True)
class Chosen:
    """A measured candidate with its verdict."""

    measured: Measured
    reason: Reason

    @property
    def accepted(self) -> bool:
        return self.reason is Reason.ACCEPTED


def verdict(measured: Measured, criteria: ScreeningCriteria) -> Reason:
    """The verdict on one candidate by itself.

    Raises:
        LookupError: Its OFO rollout did not run, though the baseline does not rule it out.
    """
    if measured.failure is not None:
        return measured.failure.reason
    if measured.baseline is None:
        raise LookupError(f"seed {measured.seed} has neither figures nor a failure")
    if measured.ofo is None:
        reason = judge_baseline(measured.baseline, criteria)
        if reason is None:
            raise LookupError(f"seed {measured.seed} needs its OFO rollout to be judged")
        return reason
    return judge(measured.baseline, measured.ofo, criteria)


class Selection:
    """Verdicts with caps applied, as candidates come in seed order.

    The first trivial scenarios in seed order are kept, the later ones are not.
    """

    def __init__(self, criteria: ScreeningCriteria) -> None:
        self._criteria = criteria
        self._trivial = 0
        self.accepted = 0

    def add(self, measured: Measured) -> Chosen:
        """Verdict on the next candidate."""
        reason = verdict(measured, self._criteria)
        if reason is Reason.ACCEPTED and measured.ofo_always_min:
            self._trivial += 1
            if self._trivial > self._criteria.max_always_min:
                reason = Reason.ALWAYS_MIN_CAP
        self.accepted += reason is Reason.ACCEPTED
        return Chosen(measured, reason)


def select(candidates: Iterable[Measured], criteria: ScreeningCriteria, accept: int | None = None) -> list[Chosen]:
    """All verdicts, in seed order.

    Args:
        candidates: In any order.
        criteria: The thresholds.
        accept: Stop at the row of this many accepted; later candidates are dropped.
    """
    selection = Selection(criteria)
    chosen = []
    for measured in sorted(candidates, key=lambda candidate: candidate.seed):
        if accept is not None and selection.accepted >= accept:
            break
        chosen.append(selection.add(measured))
    return chosen
