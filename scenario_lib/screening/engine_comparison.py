"""How far the other engine agrees with a record: decisions, seconds in violation, integrals and verdict."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

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
class EngineFinding(Finding):
    """What the comparison of one record found.

    Attributes:
        seconds_apart: Seconds with different decisions.
        explained: Whether those that differ first lie on a rounding boundary; also if none differ.
    """

    seconds_apart: int = 0
    explained: bool = True


def compare_engines(
    record: ScenarioRecord, replayed: Replayed, criteria: ScreeningCriteria, limits: Limits
) -> EngineFinding:
    """Within tolerance if decisions and seconds in violation are equal but for what lies on an edge, integrals agree
    within `ENGINE_TOLERANCE`, and the verdict is the same."""
    baseline, ofo, agreement = replayed.baseline, replayed.ofo, replayed.agreement
    integrals = (
        (baseline.measures.integral_pu_s, record.baseline_integral),
        (ofo.measures.integral_pu_s, record.ofo_integral),
    )
    apart_s = (
        abs(baseline.measures.violation_time_s - record.baseline_violation_time_s),
        abs(ofo.measures.violation_time_s - record.ofo_violation_time_s),
    )
    either_way_s = [np.count_nonzero(at_a_limit(one.rollout.voltages_pu, limits)) for one in (baseline, ofo)]
    accepted = judge(baseline.measures, ofo.measures, criteria) is Reason.ACCEPTED
    agrees = (
        agreement.explained
        and accepted
        and all(apart <= either_way for apart, either_way in zip(apart_s, either_way_s, strict=True))
        and all(math.isclose(a, b, rel_tol=ENGINE_TOLERANCE, abs_tol=ENGINE_TOLERANCE) for a, b in integrals)
    )
    sentences = (
        f"seed {record.seed}: batch decisions {_decisions(agreement)}",
        f"largest difference of a penalty {_penalty(record, replayed):.3g} pu^2, of an integral "
        f"{max(abs(a - b) for a, b in integrals):.3g} pu s, of a time in violation {max(apart_s):g} s ("
        f"{sum(either_way_s)} s have a voltage at a limit)",
        f"verdict {'equal' if accepted else 'different'}",
    )
    grade = Grade.WITHIN_TOLERANCE if agrees else Grade.DIFFERS
    return EngineFinding(
        grade, "; ".join(sentences), seconds_apart=agreement.seconds_apart, explained=agreement.explained
    )


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


def count_decisions(findings: Sequence[Finding]) -> Iterator[Finding]:
    """A note on how many records the engines decided alike; none if no record was compared."""
    compared = [finding for finding in findings if isinstance(finding, EngineFinding)]
    apart = [finding for finding in compared if finding.seconds_apart]
    if compared:
        on_edge = sum(finding.explained for finding in apart)
        yield Finding(
            Grade.HELD,
            f"batch decisions on both engines: equal in {len(compared) - len(apart)} of {len(compared)} records, "
            f"different on a rounding boundary in {on_edge}, otherwise different in {len(apart) - on_edge}",
        )
