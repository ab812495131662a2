"""Strata of a build: each with its own plan, seeds and goal, all in one library.

A seed belongs to one stratum, so that it goes on meaning one scenario within a library: seeds of a mixture follow one
another, stratum by stratum, unless a stratum says where its own begin.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.strata import Stratum
from scenario_lib.screening.measure import MeasurePlan
from scenario_lib.screening.request import CandidateRequest
from scenario_lib.screening.seeds import shared
from scenario_lib.screening.select import Chosen, shortfalls


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
    chosen: list[Chosen]

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
