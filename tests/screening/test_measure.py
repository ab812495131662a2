"""One candidate: what fails becomes a row, and what ran before makes no difference."""

from dataclasses import replace

import numpy as np
import pytest

from scenario_lib.errors import PowerFlowError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.metrics.voltage import measure_voltages, penalty_trace
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening import candidate as module
from scenario_lib.screening.candidate import MeasurePlan, StageFailure, always_at_smallest, measure_candidate
from scenario_lib.screening.criteria import Reason, ScreeningCriteria
from scenario_lib.simulation.engines import Engine, Simulated
from scenario_lib.simulation.rollout import Rollout

EXPERIMENT = load_experiment("ieee13")
PLAN = MeasurePlan(EXPERIMENT, RandomizationSettings(), ScreeningCriteria(), engine=Engine("reference"))
LABELS = tuple(("default", deployment.label) for deployment in EXPERIMENT.sites[0].models)


def rollout(voltages_pu: np.ndarray, batch_size: int = 64) -> Rollout:
    """A made-up rollout with the given voltages."""
    steps, nodes = voltages_pu.shape
    shape = (steps, len(LABELS))
    return Rollout(
        policy="none",
        bus_phases=tuple((f"bus{i}", 1) for i in range(nodes)),
        site_names=("default",),
        model_labels=LABELS,
        voltages_pu=voltages_pu,
        power_w=np.ones((steps, 1, 3)),
        batch_sizes=np.full(shape, batch_size),
        active_replicas=np.ones(shape, dtype=np.int64),
        itl_s=np.ones(shape),
    )


def with_dip(depth_pu: float) -> np.ndarray:
    voltages = np.ones((3600, 2))
    voltages[1200:1300, 1] = 0.95 - depth_pu
    return voltages


class Simulations:
    """In place of an engine: gives these rollouts by policy, or raises these errors."""

    def __init__(self, **by_policy: Rollout | Exception) -> None:
        self.by_policy = by_policy
        self.ran: list[str] = []

    def run(self, policy: str) -> Simulated:
        self.ran.append(policy)
        result = self.by_policy[policy]
        if isinstance(result, Exception):
            raise result
        voltages = result.voltages_pu
        return Simulated(result, measure_voltages(voltages, 0.95, 1.05), penalty_trace(voltages, 0.95, 1.05))


@pytest.fixture
def rollouts(monkeypatch):
    """Make measuring use these rollouts."""

    def use(**by_policy):
        simulations = Simulations(**by_policy)
        monkeypatch.setattr(module, "simulator", lambda *_: simulations)
        return simulations.ran

    return use


def test_an_accepted_candidate_has_figures_and_traces(rollouts) -> None:
    rollouts(none=rollout(with_dip(0.01)), ofo=rollout(with_dip(0.001)))
    candidate, traces = measure_candidate(PLAN, 7)
    figures = candidate
    assert figures.failure is None
    assert figures.baseline.integral_pu_s == pytest.approx(1.0)
    assert figures.ofo.integral_pu_s == pytest.approx(0.1)
    assert (figures.first_violation_s, figures.last_violation_s) == (1200, 1299)
    assert figures.ofo_always_min is False
    assert traces.shape == (2, 3600)
    assert traces[0, 1250] == pytest.approx(1e-4)
    assert traces[1, 1250] == pytest.approx(1e-6)


def test_ofo_is_not_run_where_the_baseline_already_fails(rollouts) -> None:
    ran = rollouts(none=rollout(np.ones((3600, 2))), ofo=rollout(np.ones((3600, 2))))
    candidate, traces = measure_candidate(PLAN, 7)
    assert ran == ["none"]
    assert candidate.ofo is None
    assert candidate.first_violation_s is None
    assert traces is None
    measured = measure_candidate(replace(PLAN, full_table=True), 7)[0]
    assert ran == ["none", "none", "ofo"]
    assert measured.ofo is not None


def test_traces_are_kept_for_those_that_may_be_accepted_only(rollouts) -> None:
    rollouts(none=rollout(with_dip(0.01)), ofo=rollout(with_dip(0.009)))
    candidate, traces = measure_candidate(PLAN, 7)
    assert candidate.ofo.integral_pu_s == pytest.approx(0.9)
    assert traces is None


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (
            PowerFlowError(1234, "step"),
            (Reason.POWER_FLOW_DIVERGED, 1234, "the power flow did not converge at second 1234 (during the step)"),
        ),
        (PowerFlowError(None, "start-up"), (Reason.POWER_FLOW_DIVERGED, None, "before the first step")),
        (ValueError("more GPUs\nthan there are"), (Reason.ERROR, None, "ValueError: more GPUs than there are")),
    ],
)
@pytest.mark.parametrize("stage", ["baseline", "ofo"])
def test_a_failed_rollout_is_recorded_with_stage_step_and_message(rollouts, stage: str, error, failure) -> None:
    rollouts(none=error if stage == "baseline" else rollout(with_dip(0.01)), ofo=error)
    candidate, traces = measure_candidate(PLAN, 7)
    recorded = candidate.failure
    assert (recorded.reason, recorded.stage, recorded.step) == (failure[0], stage, failure[1])
    assert failure[2] in recorded.message
    assert traces is None
    assert candidate.scenario_digest is not None
    assert (candidate.baseline is None) is (stage == "baseline")


def test_a_voltage_that_is_no_number_is_a_failure_and_never_no_violation(rollouts) -> None:
    voltages = np.ones((3600, 2))
    voltages[17, 1] = np.nan
    rollouts(none=rollout(voltages))
    failure = measure_candidate(PLAN, 7)[0].failure
    message = "ValueError: the voltage at bus bus1, phase 1 is not finite at second 17"
    assert failure == StageFailure(Reason.ERROR, "baseline", None, message)


def test_always_at_the_smallest_batch_counts_after_ten_seconds() -> None:
    smallest = min(EXPERIMENT.spec(LABELS[0][1]).feasible_batch_sizes)
    trivial = rollout(np.ones((3600, 1)), batch_size=smallest)
    assert always_at_smallest(trivial, EXPERIMENT)
    trivial.batch_sizes[:11] = 128
    assert always_at_smallest(trivial, EXPERIMENT), "at 10 s and before, anything goes"
    trivial.batch_sizes[11, 0] = 128
    assert not always_at_smallest(trivial, EXPERIMENT)


def test_a_power_flow_that_really_diverges_is_recorded_with_its_second() -> None:
    """No feeder carries a load of 1 GW on each phase; at first it draws less, and the power flow still converges."""
    (load,) = EXPERIMENT.loads
    overloaded = replace(EXPERIMENT, loads=(replace(load, peak_kw_per_phase=1e6),))
    candidate, _ = measure_candidate(replace(PLAN, experiment=overloaded), 7)
    failure = candidate.failure
    assert (failure.reason, failure.stage, failure.step) == (Reason.POWER_FLOW_DIVERGED, "baseline", 1191)
    assert failure.message == "the power flow did not converge at second 1191 (during the step)"
    assert candidate.baseline is None
    assert candidate.pv_scale == 0.9545486402289702


def test_a_users_own_feeder_is_measured_like_the_shipped_ones(village) -> None:
    measured = measure_candidate(replace(PLAN, experiment=village), 7)[0]
    assert measured.failure is None
    assert 0.8 < measured.baseline.worst_v_min_pu < measured.baseline.worst_v_max_pu < 1.2
