"""Made-up candidates of all kinds, whose figures depend on the seed alone; workers import this."""

from typing import Any

import numpy as np
from measured_samples import NOTHING, voltages

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range
from scenario_lib.screening.candidate import Candidate, MeasuredCandidate, MeasurePlan
from scenario_lib.screening.criteria import Reason, ScreeningCriteria, judge, judge_baseline
from scenario_lib.screening.request import CandidateRequest, Quota
from scenario_lib.screening.select import Stratum, plan_stratum
from scenario_lib.simulation.engines import Engine

ANY_LOAD = Range(0.5, 2.0)
KINDS = ("under", "over", "mixed", None)
_TIMES = {"under": (100.0, 0.0), "over": (0.0, 100.0), "mixed": (100.0, 30.0)}


def kind_at(seed: int) -> str | None:
    return KINDS[seed // 1000 % 4]


def recovery_at(seed: int) -> float:
    """0.30 to 0.95, in steps of 0.05."""
    return 0.30 + 0.05 * (seed // 1000 * 5 % 14)


def measure_kinds(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    """As `measure_candidate`: kinds take turns, every eleventh is trivial, and only what the plan asks for is run."""
    scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
    drawn: dict[str, Any] = {
        "seed": seed,
        "scenario_digest": scenario_digest(scenario),
        "pv_scale": scenario.params.pv_scale,
        "load_scale": scenario.params.load_scale,
    }
    kind = kind_at(seed)
    if kind is None:
        return Candidate(**drawn, baseline=NOTHING), None
    drawn |= {"first_violation_s": 50 + seed // 1000, "last_violation_s": 3500}
    baseline = voltages(10.0, *_TIMES[kind])
    if judge_baseline(baseline, plan.criteria, plan.kinds) is not None and not plan.full_table:
        return Candidate(**drawn, baseline=baseline), None
    ofo = voltages(10.0 * (1.0 - recovery_at(seed)), *_TIMES[kind])
    candidate = Candidate(**drawn, baseline=baseline, ofo=ofo, ofo_always_min=seed // 1000 % 11 == 0)
    if judge(baseline, ofo, plan.criteria) is not Reason.ACCEPTED:
        return candidate, None
    return candidate, np.random.default_rng(seed).random((2, 3600))


def stratum(name: str | None, request: CandidateRequest, load: Range = ANY_LOAD, **criteria) -> Stratum:
    plan = MeasurePlan(
        load_experiment("ieee13"),
        RandomizationSettings(load_scale=load),
        ScreeningCriteria(**criteria),
        engine=Engine("reference"),
    )
    return plan_stratum(plan, request, name)


MIXTURE = (
    stratum(
        "evening",
        CandidateRequest(quota=Quota(under=4, mixed=1), max_candidates=40),
        Range(1.0, 2.0),
        min_recovery_frac=0.4,
    ),
    stratum("noon", CandidateRequest(quota=Quota(over=3), max_candidates=40, seed_start=40), min_recovery_frac=0.6),
    stratum("any", CandidateRequest(accept=2, max_candidates=20, seed_start=80), min_recovery_frac=0.4),
)
