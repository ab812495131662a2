"""Measure one candidate: draw it, simulate it without control and under OFO, and reduce the rollouts to figures.

This is what runs in workers. It is a pure function of (plan, seed): which worker, in which order, after which other
candidates makes no difference.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib._values import STRICT, as_flag, as_path, as_text, built_as, convert_fields, optional, refuse, tuple_of
from scenario_lib.errors import PowerFlowError
from scenario_lib.execution.tasks import one_line
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import as_experiment
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.model import Scenario, scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.criteria import KINDS, Reason, ScreeningCriteria, as_screened, judge, judge_baseline
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import Engine, Simulated, as_engine, simulator
from scenario_lib.simulation.rollout import Rollout

_SETTLING_S = 10
"""OFO may leave the initial batches during the first seconds without counting as flexible."""


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """What all candidates of a build share.

    Attributes:
        experiment: An experiment, or what `load_experiment` takes.
        settings, criteria: As such, or a mapping of their fields.
        specs_dir: Spec cache in openg2g's layout; None means the shipped one.
        full_table: Simulate OFO also for candidates that the baseline rules out.
        engine: What rollouts run on; also its label, such as "reference".
        kinds: Kinds of violation that may be accepted; others need no OFO rollout.
    """

    experiment: Experiment
    settings: RandomizationSettings
    criteria: ScreeningCriteria
    specs_dir: Path | None = None
    full_table: bool = False
    engine: Engine = Engine()
    kinds: tuple[str, ...] = KINDS

    def __post_init__(self) -> None:
        convert_fields(self, experiment=as_experiment, settings=built_as(RandomizationSettings), engine=as_engine)
        convert_fields(self, criteria=built_as(ScreeningCriteria), specs_dir=optional(as_path), full_table=as_flag)
        convert_fields(self, kinds=tuple_of(as_text))
        for kind in self.kinds:
            if kind not in KINDS:
                raise refuse("kinds", kind, f"among {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True)
class StageFailure:
    """Where and why a candidate has no verdict.

    Attributes:
        reason: "power_flow_diverged", "error", "timeout" or "worker_died".
        stage: "draw", "baseline", "ofo", or "worker" if that is not known.
        step: Simulated second, if it is known.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    reason: Reason
    stage: str
    step: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate's figures.

    Attributes:
        baseline, ofo: Measures of the two rollouts; None where one did not run or failed.
        ofo_always_min: OFO kept every model at its smallest batch after the first seconds.
        first_violation_s, last_violation_s: Of the baseline; None without any.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    seed: int
    scenario_digest: str | None = None
    pv_scale: float | None = None
    load_scale: float | None = None
    baseline: VoltageMeasures | None = None
    ofo: VoltageMeasures | None = None
    ofo_always_min: bool | None = None
    first_violation_s: int | None = None
    last_violation_s: int | None = None
    failure: StageFailure | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a worker sends back.

    Attributes:
        traces: The (baseline, OFO) penalty traces, shape (2, T); None unless the candidate may be accepted.
    """

    measured: Measured
    traces: Floats | None


def measure_candidate(plan: MeasurePlan, seed: int) -> Candidate:
    """Figures of one seed; a power flow that diverges, or an error of the simulation, becomes a failure.

    Raises:
        MissingDataError, DataFileError: The data are not there; no candidate could be measured.
    """
    assets = load_assets(plan.experiment, plan.specs_dir)
    scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
    drawn = _Drawn(seed, scenario)
    try:
        simulated = simulator(scenario, as_screened(plan.experiment), assets, plan.engine)
        baseline = _finite(simulated.run("none"))
    except (PowerFlowError, ValueError, RuntimeError) as error:
        return Candidate(drawn.measured(failure=_failure("baseline", error)), None)
    figures = {"baseline": baseline.measures, **_violation_span(baseline.penalties)}
    if judge_baseline(baseline.measures, plan.criteria, plan.kinds) is not None and not plan.full_table:
        return Candidate(drawn.measured(**figures), None)
    try:
        ofo = _finite(simulated.run("ofo"))
    except (PowerFlowError, ValueError, RuntimeError) as error:
        return Candidate(drawn.measured(**figures, failure=_failure("ofo", error)), None)
    always_min = always_at_smallest(ofo.rollout, plan.experiment)
    measured = drawn.measured(**figures, ofo=ofo.measures, ofo_always_min=always_min)
    if judge(baseline.measures, ofo.measures, plan.criteria) is not Reason.ACCEPTED:
        return Candidate(measured, None)
    return Candidate(measured, np.stack([baseline.penalties, ofo.penalties]))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A seed's scenario, from which every `Measured` of it starts."""

    seed: int
    scenario: Scenario

    def measured(self, **figures) -> Measured:  # type: ignore[no-untyped-def]
        params = self.scenario.params
        return Measured(self.seed, scenario_digest(self.scenario), params.pv_scale, params.load_scale, **figures)


def _finite(simulated: Simulated) -> Simulated:
    """What was simulated; comparisons with NaN are all false, so that it would pass for one without a violation."""
    voltages = simulated.rollout.voltages_pu
    if not np.all(np.isfinite(voltages)):
        step, column = np.argwhere(~np.isfinite(voltages))[0]
        bus, phase = simulated.rollout.bus_phases[column]
        raise ValueError(f"the voltage at bus {bus}, phase {phase} is not finite at second {step}")
    return simulated


def always_at_smallest(rollout: Rollout, experiment: Experiment) -> bool:
    """Whether every model ran at its smallest feasible batch at all times after the first ten seconds."""
    smallest = [min(experiment.spec(label).feasible_batch_sizes) for _, label in rollout.model_labels]
    return bool(np.all(rollout.batch_sizes[_SETTLING_S + 1 :] == smallest))


def _violation_span(penalties: Floats) -> dict[str, int | None]:
    seconds = np.flatnonzero(penalties > 0)
    if len(seconds) == 0:
        return {"first_violation_s": None, "last_violation_s": None}
    return {"first_violation_s": int(seconds[0]), "last_violation_s": int(seconds[-1])}


def _failure(stage: str, error: Exception) -> StageFailure:
    if isinstance(error, PowerFlowError):
        return StageFailure(Reason.POWER_FLOW_DIVERGED, stage, error.step, str(error))
    return StageFailure(Reason.ERROR, stage, None, one_line(error))
