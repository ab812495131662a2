"""How far the other engine agrees with a record: decisions, seconds in violation, integrals and verdict."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scenario_lib.feeders.checks import require_at_least, require_count
from scenario_lib.feeders.feeder import Limits
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.screening.criteria import Reason, ScreeningCriteria, judge
from scenario_lib.screening.findings import Finding, Grade
from scenario_lib.simulation.agreement import Agreement, at_a_limit
from scenario_lib.simulation.engines import Simulated

ENGINE_TOLERANCE = 1e-5
"""Largest difference of an integral between the engines, relative or in pu s."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A record's rollouts on the other engine, and how OFO on both compares."""

    baseline: Simulated
    ofo: Simulated
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class FlipLimits:
    """How much rounding may explain before it counts as a difference; None sets no limit.

    Attributes:
        records: Most records in which an explained flip changes figures.
        integral_frac: Largest change of an OFO integral by one, of that integral.
    """

    records: int | None = None
    integral_frac: float | None = None

    def __post_init__(self) -> None:
        if self.records is not None:
            require_count("explained flips", self.records, 0)
        if self.integral_frac is not None:
            require_at_least("change by explained flips", self.integral_frac, 0)


NO_LIMITS = FlipLimits()


@dataclass(frozen=True, slots=True)
class EngineFinding(Finding):
    """What the comparison of one record found.

    Attributes:
        seconds_apart: Seconds with different decisions.
        explained: Whether those that differ first lie on a rounding boundary; also if none differ.
    """

    seconds_apart: int = 0
    explained: bool = True


def compare_engines(
    record: ScenarioRecord,
    replayed: Replayed,
    criteria: ScreeningCriteria,
    limits: Limits,
    allowed: FlipLimits = NO_LIMITS,
) -> EngineFinding:
    """The grade of a record by its rollouts on the other engine.

    Within tolerance if decisions and seconds in violation are equal but for what lies on an edge, integrals agree
    within `ENGINE_TOLERANCE`, and the verdict is the same; explained if all of this holds but for what follows from a
    decision on a rounding boundary.
    """
    baseline, ofo, agreement = replayed.baseline, replayed.ofo, replayed.agreement
    compared = (
        _Compared.of(baseline, record.baseline_integral, record.baseline_violation_time_s, limits),
        _Compared.of(ofo, record.ofo_integral, record.ofo_violation_time_s, limits),
    )
    accepted = judge(baseline.measures, ofo.measures, criteria) is Reason.ACCEPTED
    change_frac = compared[1].integral_pu_s / max(record.ofo_integral, ENGINE_TOLERANCE)
    sentences = (
        f"seed {record.seed}: batch decisions {_decisions(agreement)}",
        f"largest difference of a penalty {_penalty(record, replayed):.3g} pu^2, of an integral "
        f"{max(each.integral_pu_s for each in compared):.3g} pu s, of a time in violation "
        f"{max(each.apart_s for each in compared):g} s ("
        f"{sum(each.either_way_s for each in compared)} s have a voltage at a limit)",
        f"verdict {'equal' if accepted else 'different'}",
    )
    grade = Grade.DIFFERS
    if agreement.explained and accepted and compared[0].agrees:
        grade = Grade.WITHIN_TOLERANCE if compared[1].agrees else _grade_of_flip(agreement, change_frac, allowed)
    return EngineFinding(
        grade, "; ".join(sentences), seconds_apart=agreement.seconds_apart, explained=agreement.explained
    )


def _grade_of_flip(agreement: Agreement, change_frac: float, allowed: FlipLimits) -> Grade:
    """The grade where figures of OFO differ, and nothing else does."""
    within = allowed.integral_frac is None or change_frac <= allowed.integral_frac
    return Grade.EXPLAINED if agreement.seconds_apart and within else Grade.DIFFERS


@dataclass(frozen=True, slots=True)
class _Compared:
    """One rollout beside what its record says.

    Attributes:
        integral_pu_s, apart_s: Differences of the integral and of the time in violation.
        either_way_s: Seconds with a voltage at a limit.
        agrees: Whether the integrals are equal within tolerance, and the times but for such seconds.
    """

    integral_pu_s: float
    apart_s: float
    either_way_s: int
    agrees: bool

    @classmethod
    def of(cls, run: Simulated, integral_pu_s: float, time_s: float, limits: Limits) -> "_Compared":
        found = run.measures.integral_pu_s
        apart_s = abs(run.measures.violation_time_s - time_s)
        either_way_s = int(np.count_nonzero(at_a_limit(run.rollout.voltages_pu, limits)))
        close = math.isclose(found, integral_pu_s, rel_tol=ENGINE_TOLERANCE, abs_tol=ENGINE_TOLERANCE)
        return cls(abs(found - integral_pu_s), apart_s, either_way_s, close and apart_s <= either_way_s)


def _decisions(agreement: Agreement) -> str:
    if not agreement.seconds_apart:
        return "equal"
    first = ", ".join(map(str, agreement.flips)) or f"the first at second {agreement.first_apart}"
    return f"different in {agreement.seconds_apart} s, {first}"


def _penalty(record: ScenarioRecord, replayed: Replayed) -> float:
    """Largest difference of a penalty (pu^2)."""
    baseline = np.abs(replayed.baseline.penalties - record.baseline_voltage_pen_per_step)
    ofo = np.abs(replayed.ofo.penalties - record.ofo_voltage_pen_per_step)
    return float(max(baseline.max(), ofo.max()))


def count_decisions(findings: Sequence[Finding], allowed: FlipLimits = NO_LIMITS) -> Iterator[Finding]:
    """A note on how many records the engines decided alike, if any was compared, and what is over a limit."""
    compared = [finding for finding in findings if isinstance(finding, EngineFinding)]
    apart = [finding for finding in compared if finding.seconds_apart]
    if compared:
        on_edge = sum(finding.explained for finding in apart)
        yield Finding(
            Grade.HELD,
            f"batch decisions on both engines: equal in {len(compared) - len(apart)} of {len(compared)} records, "
            f"different on a rounding boundary in {on_edge}, otherwise different in {len(apart) - on_edge}",
        )
    changed = sum(finding.grade is Grade.EXPLAINED for finding in compared)
    if allowed.records is not None and changed > allowed.records:
        text = f"explained flips change the figures of {changed} records, over the limit {allowed.records}"
        yield Finding(Grade.DIFFERS, text)
