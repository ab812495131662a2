"""Back from a library's table to figures of candidates, as a build would have measured them under other thresholds."""

from dataclasses import replace

from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.screening.criteria import Reason, ScreeningCriteria, judge_baseline
from scenario_lib.screening.journal import JournalLine
from scenario_lib.screening.measure import Measured, MeasurePlan, StageFailure


def stored_line(row: CandidateRow, record: ScenarioRecord | None, plan: MeasurePlan) -> JournalLine:
    """What the journal of a build by `plan` would say of a stored candidate, as far as its row and record tell.

    Args:
        row: Of the candidates table.
        record: If it was accepted; otherwise its traces were not kept.
        plan: With other thresholds than the candidate was screened by, but the same buffers of the control window.
    """
    measured = Measured(
        seed=row.seed,
        scenario_digest=row.scenario_digest,
        pv_scale=row.pv_scale,
        load_scale=row.load_scale,
        baseline=_baseline(row),
        ofo=_ofo(row),
        ofo_always_min=row.ofo_always_min,
        first_violation_s=_first_violation_s(row, plan.criteria),
        last_violation_s=_last_violation_s(row, plan.criteria),
        failure=_failure(row),
    )
    proof = None if record is None else record.proof
    return JournalLine(
        _without_needless_ofo(measured, plan),
        None if proof is None else (proof.baseline_digest, proof.ofo_digest),
        seconds=0.0,
    )


def needs_ofo(measured: Measured, plan: MeasurePlan) -> bool:
    """Whether its verdict depends on an OFO rollout that was not simulated."""
    if measured.failure is not None or measured.baseline is None or measured.ofo is not None:
        return False
    return judge_baseline(measured.baseline, plan.criteria, plan.kinds) is None


def _without_needless_ofo(measured: Measured, plan: MeasurePlan) -> Measured:
    """Without the figures of an OFO rollout that a build by this plan would not have simulated."""
    if measured.baseline is None or judge_baseline(measured.baseline, plan.criteria, plan.kinds) is None:
        return measured
    failure = measured.failure
    return replace(
        measured, ofo=None, ofo_always_min=None, failure=None if failure and failure.stage == "ofo" else failure
    )


def _baseline(row: CandidateRow) -> VoltageMeasures | None:
    return _measures(
        row.baseline_integral,
        row.baseline_violation_time_s,
        row.bl_undervoltage_time_s,
        row.bl_overvoltage_time_s,
        row.baseline_worst_v_min_pu,
        row.baseline_worst_v_max_pu,
    )


def _ofo(row: CandidateRow) -> VoltageMeasures | None:
    return _measures(
        row.ofo_integral,
        row.ofo_violation_time_s,
        row.ofo_undervoltage_time_s,
        row.ofo_overvoltage_time_s,
        row.ofo_worst_v_min_pu,
        row.ofo_worst_v_max_pu,
    )


def _measures(*figures: float | None) -> VoltageMeasures | None:
    measured = [figure for figure in figures if figure is not None]
    return VoltageMeasures(*measured) if len(measured) == len(figures) else None


def _first_violation_s(row: CandidateRow, criteria: ScreeningCriteria) -> int | None:
    """A second that gives the stored window again: the violation's, or a later one where the window was cut."""
    return None if row.t_control_start is None else row.t_control_start + criteria.window_before_s


def _last_violation_s(row: CandidateRow, criteria: ScreeningCriteria) -> int | None:
    return None if row.t_control_end is None else row.t_control_end - criteria.window_after_s


def _failure(row: CandidateRow) -> StageFailure | None:
    if row.failed_stage is None or row.failure is None:
        return None
    return StageFailure(Reason(row.reason), row.failed_stage, row.failed_step, row.failure)
