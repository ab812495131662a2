"""Choose from measured candidates: caps, targets and quotas, in seed order, whatever order the workers finished in.

Strata of a build: each with its own plan, seeds and goal, all in one library.

A seed belongs to one stratum, so that it goes on meaning one scenario within a library: seeds of a mixture follow one
another, stratum by stratum, unless a stratum says where its own begin.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.recipe import Recipe, Stratum
from scenario_lib.screening.candidate import Measured, MeasurePlan
from scenario_lib.screening.criteria import KINDS, Reason, ScreeningCriteria, judge, judge_baseline, kind_of
from scenario_lib.screening.request import EVERYTHING, CandidateRequest, Goal, shared


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
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

    def add(self, measured: Measured) -> JudgedCandidate:
        """Verdict on the next candidate."""
        chosen = JudgedCandidate(measured, verdict(measured, self._criteria, self._goal.kinds))
        if chosen.accepted and chosen.kind is not None:
            chosen = JudgedCandidate(measured, self._limited(measured, chosen.kind))
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


def select(
    candidates: Iterable[Measured], criteria: ScreeningCriteria, goal: Goal = EVERYTHING
) -> list[JudgedCandidate]:
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


def shortfalls(chosen: Iterable[JudgedCandidate], goal: Goal) -> list[str]:
    """Where fewer were accepted than asked for, such as "40 of 50 mixed"."""
    kinds = Counter(choice.kind for choice in chosen if choice.accepted)
    if goal.quota is not None:
        wanted = goal.quota.to_dict().items()
        return [f"{kinds[kind]} of {count} {kind}" for kind, count in wanted if kinds[kind] < count]
    found = kinds.total()
    return [] if goal.total is None or found >= goal.total else [f"{found} of {goal.total}"]


@dataclass(frozen=True, slots=True)
class PlannedStratum:
    """One stratum of a build, or all of a build without strata.

    Attributes:
        plan: How its candidates are drawn and measured.
        request: Which seeds are tried, and when there are enough.
        name: What the user calls it; None for a build without strata.
    """

    plan: MeasurePlan
    request: CandidateRequest
    name: str | None = None


def plan_stratum(plan: MeasurePlan, request: CandidateRequest, name: str | None = None) -> PlannedStratum:
    """A stratum whose workers leave out what its request does not want."""
    return PlannedStratum(replace(plan, kinds=request.goal.kinds), request, name)


@dataclass(frozen=True, slots=True)
class Screened:
    """A stratum with the verdicts on its candidates.

    Attributes:
        recipe_id: Identifier of `recipe`, which takes a while to compute.
        chosen: In seed order.
    """

    stratum: PlannedStratum
    recipe: Recipe
    recipe_id: str
    chosen: list[JudgedCandidate]

    @property
    def entry(self) -> Stratum:
        """What the library says of it."""
        quota = self.stratum.request.quota
        criteria = self.stratum.plan.criteria.to_dict()
        return Stratum(self.recipe_id, criteria, {} if quota is None else quota.to_dict())

    @property
    def shortfalls(self) -> list[str]:
        """Where it accepted fewer than asked for, such as "evening: 40 of 50 mixed"."""
        label = "" if self.stratum.name is None else f"{self.stratum.name}: "
        return [label + text for text in shortfalls(self.chosen, self.stratum.request.goal)]


def require_disjoint(strata: Sequence[PlannedStratum]) -> None:
    """Refuse strata that share a name or a seed.

    Raises:
        InvalidSettingError: Naming the strata and what they share.
    """
    _require_distinct_names([str(stratum.name) for stratum in strata])
    seeds = [(stratum.name, stratum.request.seed_order()) for stratum in strata]
    for (other, taken), (name, own) in combinations(seeds, 2):
        both = shared(taken, own)
        if both:
            raise InvalidSettingError(
                f"strata {other!r} and {name!r} share {len(both)} seeds, such as {both[0]}; expected "
                f"each seed in one stratum: give another seed_start, or leave it away so that seeds follow on"
            )


def _require_distinct_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidSettingError(f"two strata are called {name!r}; expected different names")
        seen.add(name)
