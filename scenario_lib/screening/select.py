"""Choose from measured candidates: caps, targets and quotas, in seed order, whatever order the workers finished in."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scenario_lib.screening.criteria import KINDS, Reason, ScreeningCriteria, judge, judge_baseline, kind_of
from scenario_lib.screening.measure import Measured
from scenario_lib.screening.request import EVERYTHING, Goal


@dataclass(frozen=True, slots=True)
class Chosen:
    """A measured candidate with its verdict."""

    measured: Measured
    reason: Reason

    @property
    def accepted(self) -> bool:
        return self.reason is Reason.ACCEPTED

    @property
    def kind(self) -> str | None:
        """Which limit its baseline breaks; None if it breaks none, or was not measured."""
        return None if self.measured.baseline is None else kind_of(self.measured.baseline)


def verdict(measured: Measured, criteria: ScreeningCriteria, kinds: Collection[str] = KINDS) -> Reason:
    """The verdict on one candidate by itself.

    Raises:
        LookupError: Its OFO rollout did not run, though the baseline does not rule it out.
    """
    if measured.failure is not None:
        return measured.failure.reason
    if measured.baseline is None:
        raise LookupError(f"seed {measured.seed} has neither figures nor a failure")
    reason = judge_baseline(measured.baseline, criteria, kinds)
    if reason is not None:
        return reason
    if measured.ofo is None:
        raise LookupError(f"seed {measured.seed} needs its OFO rollout to be judged")
    return judge(measured.baseline, measured.ofo, criteria)


class Selection:
    """Verdicts with the cap and the quota applied, as candidates come in seed order.

    The first trivial scenarios in seed order are kept, the later ones are not; so are the first ones of each kind.
    """

    def __init__(self, criteria: ScreeningCriteria, goal: Goal = EVERYTHING) -> None:
        self._criteria = criteria
        self._goal = goal
        self._trivial = 0
        self._accepted: Counter[str] = Counter()

    @property
    def accepted(self) -> int:
        """Accepted so far."""
        return self._accepted.total()

    @property
    def enough(self) -> bool:
        """Whether no more candidates are needed."""
        return self._goal.total is not None and self.accepted >= self._goal.total

    def add(self, measured: Measured) -> Chosen:
        """Verdict on the next candidate."""
        chosen = Chosen(measured, verdict(measured, self._criteria, self._goal.kinds))
        if chosen.accepted and chosen.kind is not None:
            chosen = Chosen(measured, self._limited(measured, chosen.kind))
            self._accepted[str(chosen.kind)] += chosen.accepted
        return chosen

    def _limited(self, measured: Measured, kind: str) -> Reason:
        """The verdict on a candidate that is worth keeping, if there is room for it."""
        if self._goal.quota is not None and self._accepted[kind] >= self._goal.quota.to_dict()[kind]:
            return Reason.QUOTA_FULL
        if measured.ofo_always_min:
            self._trivial += 1
            if self._trivial > self._criteria.max_always_min:
                return Reason.ALWAYS_MIN_CAP
        return Reason.ACCEPTED


def select(candidates: Iterable[Measured], criteria: ScreeningCriteria, goal: Goal = EVERYTHING) -> list[Chosen]:
    """All verdicts, in seed order.

    Args:
        candidates: In any order.
        criteria: The thresholds.
        goal: The row that reaches it is the last; later candidates are dropped.
    """
    selection = Selection(criteria, goal)
    chosen = []
    for measured in sorted(candidates, key=lambda candidate: candidate.seed):
        if selection.enough:
            break
        chosen.append(selection.add(measured))
    return chosen


def shortfalls(chosen: Iterable[Chosen], goal: Goal) -> list[str]:
    """Where fewer were accepted than asked for, such as "40 of 50 mixed"."""
    kinds = Counter(choice.kind for choice in chosen if choice.accepted)
    if goal.quota is not None:
        wanted = goal.quota.to_dict().items()
        return [f"{kinds[kind]} of {count} {kind}" for kind, count in wanted if kinds[kind] < count]
    found = kinds.total()
    return [] if goal.total is None or found >= goal.total else [f"{found} of {goal.total}"]
