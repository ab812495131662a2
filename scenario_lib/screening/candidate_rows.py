"""From chosen candidates to what a library stores: rows of the table, and records of the accepted ones.

Back from a library's table to figures of candidates, as a build would have measured them under other thresholds.
"""

from dataclasses import replace
from typing import Any

from scenario_lib.errors import ReplayError
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.recipe import inputs_digest
from scenario_lib.library.record import RecordDigests, RecordFields, ScenarioRecord
from scenario_lib.library.writer import NewRecord
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.model import resolve, scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.candidate import Measured, MeasurePlan, StageFailure
from scenario_lib.screening.criteria import (
    Reason,
    ScreeningCriteria,
    control_window,
    judge_baseline,
    margins,
    recovery_frac,
)
from scenario_lib.screening.journal import JournalLine
from scenario_lib.screening.select import JudgedCandidate, Screened


def candidate_row(chosen: JudgedCandidate, screened: Screened) -> CandidateRow:
    """The row of one candidate."""
    plan = screened.stratum.plan
    measured, criteria = chosen.measured, plan.criteria
    baseline, ofo, failure = measured.baseline, measured.ofo, measured.failure
    margin = margins(baseline, ofo, criteria)
    start, end = _window(chosen, plan)
    return CandidateRow(
        seed=measured.seed,
        pv_scale=measured.pv_scale,
        load_scale=measured.load_scale,
        baseline_integral=_of(baseline, "integral_pu_s"),
        ofo_integral=_of(ofo, "integral_pu_s"),
        baseline_violation_time_s=_of(baseline, "violation_time_s"),
        ofo_violation_time_s=_of(ofo, "violation_time_s"),
        bl_undervoltage_time_s=_of(baseline, "undervoltage_time_s"),
        bl_overvoltage_time_s=_of(baseline, "overvoltage_time_s"),
        ofo_undervoltage_time_s=_of(ofo, "undervoltage_time_s"),
        ofo_overvoltage_time_s=_of(ofo, "overvoltage_time_s"),
        recovery_frac=recovery_frac(baseline, ofo) if baseline and ofo else None,
        accepted=chosen.accepted,
        reason=str(chosen.reason),
        kind=chosen.kind,
        ofo_ran=ofo is not None,
        ofo_always_min=measured.ofo_always_min,
        baseline_worst_v_min_pu=_of(baseline, "worst_v_min_pu"),
        baseline_worst_v_max_pu=_of(baseline, "worst_v_max_pu"),
        ofo_worst_v_min_pu=_of(ofo, "worst_v_min_pu"),
        ofo_worst_v_max_pu=_of(ofo, "worst_v_max_pu"),
        baseline_floor_margin=margin.baseline_floor,
        baseline_ceiling_margin=margin.baseline_ceiling,
        recovery_floor_margin=margin.recovery_floor,
        recovery_ceiling_margin=margin.recovery_ceiling,
        t_control_start=start,
        t_control_end=end,
        failed_stage=_of(failure, "stage"),
        failed_step=_of(failure, "step"),
        failure=_of(failure, "message"),
        scenario_digest=measured.scenario_digest,
        recipe=screened.recipe_id,
        engine=plan.engine.label,
    )


def new_record(chosen: JudgedCandidate, line: JournalLine, screened: Screened) -> NewRecord:
    """The record of an accepted candidate.

    Raises:
        ReplayError: Its scenario, drawn here, is not the one that its worker simulated.
    """
    measured, plan = chosen.measured, screened.stratum.plan
    baseline, ofo = measured.baseline, measured.ofo
    start, end = _window(chosen, plan)
    if baseline is None or ofo is None or line.trace_digests is None or start is None or end is None:
        raise LookupError(f"seed {measured.seed} was accepted without figures or traces")
    scenario = randomize_scenario(measured.seed, experiment=plan.experiment, settings=plan.settings)
    digest = scenario_digest(scenario)
    if digest != measured.scenario_digest:
        raise ReplayError(f"seed {measured.seed} draws another scenario here than in its worker; are versions mixed?")
    overlay = scenario.params.training_overlay
    fields = RecordFields(
        seed=measured.seed,
        pv_scale=scenario.params.pv_scale,
        load_scale=scenario.params.load_scale,
        training_overlay=None if overlay is None else overlay.to_dict(),
        baseline_integral=baseline.integral_pu_s,
        ofo_integral=ofo.integral_pu_s,
        baseline_violation_time_s=baseline.violation_time_s,
        ofo_violation_time_s=ofo.violation_time_s,
        recovery_frac=recovery_frac(baseline, ofo),
        t_control_start=start,
        t_control_end=end,
        bl_undervoltage_time_s=baseline.undervoltage_time_s,
        bl_overvoltage_time_s=baseline.overvoltage_time_s,
    )
    engine = plan.engine.label
    inputs = inputs_digest(screened.recipe, engine, digest, scenario.training_run is not None)
    digests = RecordDigests(screened.recipe_id, engine, digest, *line.trace_digests, inputs)
    return NewRecord(fields, digests, resolve(scenario))


def _of(figures: VoltageMeasures | StageFailure | None, name: str) -> Any:
    """A figure, or None where its rollout did not run."""
    return None if figures is None else getattr(figures, name)


def _window(chosen: JudgedCandidate, plan: MeasurePlan) -> tuple[int | None, int | None]:
    measured = chosen.measured
    if measured.first_violation_s is None or measured.last_violation_s is None:
        return None, None
    return control_window(measured.first_violation_s, measured.last_violation_s, plan.criteria)


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
    digests = None if record is None else record.digests
    return JournalLine(
        _without_needless_ofo(measured, plan),
        None if digests is None else (digests.baseline_digest, digests.ofo_digest),
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
