"""Judge measured candidates: caps, targets and quotas, in seed order, whatever order the workers finished in.

A build has strata, each with its own plan, seeds and goal, all in one library. A seed belongs to one of them, so that
it goes on meaning one scenario within a library: seeds of a mixture follow one another, stratum by stratum, unless a
stratum says where its own begin.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.recipe import Recipe, StratumEntry
from scenario_lib.screening.candidate import Candidate, MeasurePlan
from scenario_lib.screening.criteria import KINDS, Reason, ScreeningCriteria, judge, judge_baseline
from scenario_lib.screening.request import EVERYTHING, CandidateRequest, Goal, shared


def verdict(candidate: Candidate, criteria: ScreeningCriteria, kinds: Collection[str] = KINDS) -> Reason:
    """The verdict on one candidate by itself.

    Raises:
        LookupError: Its OFO rollout did not run, though the baseline does not rule it out.
    """
    if candidate.failure is not None:
        return candidate.failure.reason
    if candidate.baseline is None:
        raise LookupError(f"seed {candidate.seed} has neither figures nor a failure")
    reason = judge_baseline(candidate.baseline, criteria, kinds)
    if reason is not None:
        return reason
    if candidate.ofo is None:
        raise LookupError(f"seed {candidate.seed} needs its OFO rollout to be judged")
    return judge(candidate.baseline, candidate.ofo, criteria)


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

    def judge(self, candidate: Candidate) -> Candidate:
        """The next candidate with its verdict, whatever it was before."""
        reason = verdict(candidate, self._criteria, self._goal.kinds)
        if reason is Reason.ACCEPTED and candidate.kind is not None:
            reason = self._limited(candidate, candidate.kind)
            self._accepted[candidate.kind] += reason is Reason.ACCEPTED
        return replace(candidate, reason=reason)

    def _limited(self, candidate: Candidate, kind: str) -> Reason:
        """The verdict on a candidate that is worth keeping, if there is room for it."""
        if self._goal.quota is not None and self._accepted[kind] >= self._goal.quota.to_dict()[kind]:
            return Reason.QUOTA_FULL
        if candidate.ofo_always_min:
            self._trivial += 1
            if self._trivial > self._criteria.max_always_min:
                return Reason.ALWAYS_MIN_CAP
        return Reason.ACCEPTED


def select(candidates: Iterable[Candidate], criteria: ScreeningCriteria, goal: Goal = EVERYTHING) -> list[Candidate]:
    """All candidates with their verdicts, in seed order.

    Args:
        candidates: In any order.
        criteria: The thresholds.
        goal: The row that reaches it is the last; later candidates are dropped.
    """
    selection = Selection(criteria, goal)
    judged = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.seed):
        if selection.enough:
            break
        judged.append(selection.judge(candidate))
    return judged


def shortfalls(judged: Iterable[Candidate], goal: Goal) -> list[str]:
    """Where fewer were accepted than asked for, such as "40 of 50 mixed"."""
    kinds = Counter(candidate.kind for candidate in judged if candidate.accepted)
    if goal.quota is not None:
        wanted = goal.quota.to_dict().items()
        return [f"{kinds[kind]} of {count} {kind}" for kind, count in wanted if kinds[kind] < count]
    found = kinds.total()
    return [] if goal.total is None or found >= goal.total else [f"{found} of {goal.total}"]


@dataclass(frozen=True, slots=True)
class Stratum:
    """One stratum of a build, or all of a build without strata: planned first, screened later.

    Attributes:
        plan: How its candidates are drawn and measured.
        request: Which seeds are tried, and when there are enough.
        recipe: What records are drawn from, under the name that the user gave; a build adds the digests of its data.
        candidates: In seed order: with their verdicts once it is screened, as a library stores them before it is
            screened again.
    """

    plan: MeasurePlan
    request: CandidateRequest
    recipe: Recipe
    candidates: tuple[Candidate, ...] = ()

    @property
    def name(self) -> str | None:
        """What the user calls it; None for a build without strata."""
        return self.recipe.stratum

    @property
    def entry(self) -> StratumEntry:
        """What the library says of it."""
        quota = self.request.quota
        return StratumEntry(self.recipe.id, self.plan.criteria.to_dict(), {} if quota is None else quota.to_dict())

    @property
    def shortfalls(self) -> list[str]:
        """Where it accepted fewer than asked for, such as "evening: 40 of 50 mixed"."""
        label = "" if self.name is None else f"{self.name}: "
        return [label + text for text in shortfalls(self.candidates, self.request.goal)]


def plan_stratum(plan: MeasurePlan, request: CandidateRequest, name: str | None = None) -> Stratum:
    """A stratum whose workers leave out what its request does not want."""
    recipe = Recipe(plan.experiment, plan.settings, stratum=name)
    return Stratum(replace(plan, kinds=request.goal.kinds), request, recipe)


def require_disjoint(strata: Sequence[Stratum]) -> None:
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
