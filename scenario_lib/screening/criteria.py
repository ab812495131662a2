"""When a candidate is worth keeping: it has a violation, and one that GPU flexibility can fix.

Judging is pure and per candidate; the cap on trivial scenarios, which looks at all candidates, is in `select.py`.

How OFO is tuned in screening, which is what verdicts mean; everything else takes the experiment's tuning.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import ClassVar

from scenario_lib._values import ANY, NO_LIMIT, STRICT, Bounds, count, refuse, require_at_least, require_bounds
from scenario_lib.feeders.experiment import DURATION_S, Experiment, OFOTuning
from scenario_lib.library.record import violation_kind
from scenario_lib.metrics.voltage import VoltageMeasures

KINDS = ("under", "over", "mixed")
"""Which limit a baseline breaks."""


class Reason(StrEnum):
    """Why a candidate is in the library, or not; stored in the candidates table."""

    ACCEPTED = "accepted"
    NO_VIOLATION = "no_violation"
    BASELINE_BELOW_FLOOR = "baseline_below_floor"
    BASELINE_ABOVE_CEILING = "baseline_above_ceiling"
    RECOVERY_BELOW_FLOOR = "recovery_below_floor"
    RECOVERY_ABOVE_CEILING = "recovery_above_ceiling"
    ALWAYS_MIN_CAP = "always_min_cap"
    KIND_NOT_WANTED = "kind_not_wanted"
    QUOTA_FULL = "quota_full"
    NEEDS_RUN = "needs_run"
    POWER_FLOW_DIVERGED = "power_flow_diverged"
    ERROR = "error"
    TIMEOUT = "timeout"
    WORKER_DIED = "worker_died"


FAILED = frozenset({Reason.ERROR, Reason.TIMEOUT, Reason.WORKER_DIED})
"""Reasons that say something about the run, not about the scenario."""

_LONGEST_BUFFER_S = 100 * DURATION_S
_BOUNDS = {
    "min_baseline_integral": Bounds(0),
    "min_baseline_integral_over": Bounds(0),
    "max_baseline_integral": Bounds(0),
    "min_recovery_frac": ANY,
    "max_recovery_frac": ANY,
    "max_always_min": count(0),
    "window_before_s": count(0, _LONGEST_BUFFER_S),
    "window_after_s": count(1, _LONGEST_BUFFER_S),
}


@dataclass(frozen=True, slots=True)
class ScreeningCriteria:
    """Thresholds of the screening; defaults are those of openg2g's example.

    Attributes:
        min_baseline_integral: Least baseline integral of an undervoltage scenario (pu s).
        min_baseline_integral_over: The same where the upper limit is broken, alone or too (pu s).
        max_baseline_integral: Largest baseline integral (pu s).
        min_recovery_frac, max_recovery_frac: Band of the part that OFO removes.
        max_always_min: Most scenarios in which OFO merely keeps every model at its smallest batch.
        window_before_s, window_after_s: Buffers of the control window around the violations (s).
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    min_baseline_integral: float = 0.2
    min_baseline_integral_over: float = 0.01
    max_baseline_integral: float = NO_LIMIT
    min_recovery_frac: float = 0.7
    max_recovery_frac: float = 1.0
    max_always_min: int = 5
    window_before_s: int = 200
    window_after_s: int = 300

    def __post_init__(self) -> None:
        require_bounds(self, _BOUNDS)
        if self.max_recovery_frac < self.min_recovery_frac:
            raise refuse(
                "max_recovery_frac", self.max_recovery_frac, f"at least min_recovery_frac {self.min_recovery_frac}"
            )
        floor = max(self.min_baseline_integral, self.min_baseline_integral_over)
        require_at_least("max_baseline_integral", self.max_baseline_integral, floor)

    def to_dict(self) -> dict[str, float]:
        """The thresholds by name."""
        return asdict(self)

    def baseline_floor(self, kind: str) -> float:
        """Least baseline integral (pu s) of a scenario of one kind."""
        return self.min_baseline_integral if kind == "under" else self.min_baseline_integral_over


@dataclass(frozen=True, slots=True)
class Margins:
    """Distance to each threshold, negative where it is missed; None where the figure was not measured."""

    baseline_floor: float | None = None
    baseline_ceiling: float | None = None
    recovery_floor: float | None = None
    recovery_ceiling: float | None = None


def recovery_frac(baseline: VoltageMeasures, ofo: VoltageMeasures) -> float:
    """Part of the baseline's integral that OFO removes; 0 if the baseline has none, negative if OFO makes it worse."""
    if baseline.integral_pu_s <= 0:
        return 0.0
    return (baseline.integral_pu_s - ofo.integral_pu_s) / baseline.integral_pu_s


def kind_of(baseline: VoltageMeasures) -> str | None:
    """ "under", "over" or "mixed"; None without any violation."""
    if baseline.violation_time_s <= 0:
        return None
    return violation_kind(baseline.undervoltage_time_s, baseline.overvoltage_time_s)


def judge_baseline(
    baseline: VoltageMeasures, criteria: ScreeningCriteria, kinds: Collection[str] = KINDS
) -> Reason | None:
    """Why the baseline alone rules a candidate out, also as one of a kind that is not wanted; None if it does not."""
    kind = kind_of(baseline)
    if kind is None:
        return Reason.NO_VIOLATION
    if baseline.integral_pu_s < criteria.baseline_floor(kind):
        return Reason.BASELINE_BELOW_FLOOR
    if baseline.integral_pu_s > criteria.max_baseline_integral:
        return Reason.BASELINE_ABOVE_CEILING
    return None if kind in kinds else Reason.KIND_NOT_WANTED


def judge(baseline: VoltageMeasures, ofo: VoltageMeasures, criteria: ScreeningCriteria) -> Reason:
    """The verdict on one candidate by itself, before caps."""
    reason = judge_baseline(baseline, criteria)
    if reason is not None:
        return reason
    recovery = recovery_frac(baseline, ofo)
    if recovery < criteria.min_recovery_frac:
        return Reason.RECOVERY_BELOW_FLOOR
    if recovery > criteria.max_recovery_frac:
        return Reason.RECOVERY_ABOVE_CEILING
    return Reason.ACCEPTED


def margins(baseline: VoltageMeasures | None, ofo: VoltageMeasures | None, criteria: ScreeningCriteria) -> Margins:
    """How far a candidate is from each threshold."""
    if baseline is None:
        return Margins()
    floor = criteria.baseline_floor(kind_of(baseline) or "under")
    recovery = None if ofo is None else recovery_frac(baseline, ofo)
    return Margins(
        baseline_floor=baseline.integral_pu_s - floor,
        baseline_ceiling=criteria.max_baseline_integral - baseline.integral_pu_s,
        recovery_floor=None if recovery is None else recovery - criteria.min_recovery_frac,
        recovery_ceiling=None if recovery is None else criteria.max_recovery_frac - recovery,
    )


def control_window(first_s: int, last_s: int, criteria: ScreeningCriteria) -> tuple[int, int]:
    """The part of the hour that matters: from before the first violation to after the last (s)."""
    return max(0, first_s - criteria.window_before_s), min(DURATION_S, last_s + criteria.window_after_s)


_SCREENING_SENSITIVITY_INTERVAL_S = 300
_SCREENING_W_THROUGHPUT = 1e-4


def as_screened(experiment: Experiment) -> Experiment:
    """The experiment with OFO tuned as verdicts mean it: two figures are screening's own, on every feeder alike."""
    return replace(
        experiment,
        ofo=replace(
            experiment.ofo,
            sensitivity_update_interval=_SCREENING_SENSITIVITY_INTERVAL_S,
            w_throughput=_SCREENING_W_THROUGHPUT,
        ),
    )


def tuning_text(tuning: OFOTuning) -> str:
    """The two figures in which screening's OFO may differ from an experiment's."""
    return f"w_throughput {tuning.w_throughput:g}, sensitivity every {tuning.sensitivity_update_interval} s"
