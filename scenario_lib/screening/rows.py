"""From chosen candidates to what a library stores: rows of the table, and records of the accepted ones."""

from typing import Any

from scenario_lib.errors import ReplayError
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.inputs import inputs_digest
from scenario_lib.library.record import RecordFields, RecordProof
from scenario_lib.library.writer import NewRecord
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.canonical import resolve, scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.criteria import control_window, margins, recovery_frac
from scenario_lib.screening.journal import JournalLine
from scenario_lib.screening.measure import MeasurePlan, StageFailure
from scenario_lib.screening.planned import Screened
from scenario_lib.screening.select import Chosen


def candidate_row(chosen: Chosen, screened: Screened) -> CandidateRow:
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


def new_record(chosen: Chosen, line: JournalLine, screened: Screened) -> NewRecord:
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
    proof = RecordProof(screened.recipe_id, engine, digest, *line.trace_digests, inputs)
    return NewRecord(fields, proof, resolve(scenario))


def _of(figures: VoltageMeasures | StageFailure | None, name: str) -> Any:
    """A figure, or None where its rollout did not run."""
    return None if figures is None else getattr(figures, name)


def _window(chosen: Chosen, plan: MeasurePlan) -> tuple[int | None, int | None]:
    measured = chosen.measured
    if measured.first_violation_s is None or measured.last_violation_s is None:
        return None, None
    return control_window(measured.first_violation_s, measured.last_violation_s, plan.criteria)
