"""A candidate, and how one is measured: draw it, simulate it without control and under OFO, reduce that to figures.

Measuring is what runs in workers. It is a pure function of (plan, seed): which worker, in which order, after which
other candidates makes no difference. A candidate is one thing from there to the library: a line of the journal, a row
of the candidates table and a record of the library are views of it; see `build_record.py` for the last two.
"""

from dataclasses import dataclass, field, replace
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
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.criteria import (
    KINDS,
    Reason,
    ScreeningCriteria,
    as_screened,
    control_window,
    judge,
    judge_baseline,
    kind_of,
    recovery_frac,
)
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
class Candidate:
    """A seed with its figures and, once it is judged, its verdict.

    Attributes:
        scenario_digest: SHA-256 of the drawn scenario; None, as the draws, if it failed before.
        baseline, ofo: Measures of the two rollouts; None where one did not run or failed.
        ofo_always_min: OFO kept every model at its smallest batch after the first seconds.
        first_violation_s, last_violation_s: Of the baseline; None without any.
        trace_digests: Of the baseline's and OFO's penalty traces; None unless they are kept.
        seconds: How long it took in its worker, for the build log; two candidates that differ in it are equal.
        reason: Why it is in the library, or not; None before it is judged.
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
    trace_digests: tuple[str, str] | None = None
    seconds: float = field(default=0.0, compare=False)
    reason: Reason | None = None

    @property
    def accepted(self) -> bool:
        return self.reason is Reason.ACCEPTED

    @property
    def kind(self) -> str | None:
        """Which limit its baseline breaks; None if it breaks none, or was not measured."""
        return None if self.baseline is None else kind_of(self.baseline)

    @property
    def ofo_ran(self) -> bool:
        """Whether its OFO rollout was simulated."""
        return self.ofo is not None

    @property
    def recovery_frac(self) -> float | None:
        """Part of the baseline's integral that OFO removes; None unless both rollouts ran."""
        return None if self.baseline is None or self.ofo is None else recovery_frac(self.baseline, self.ofo)

    def control_window(self, criteria: ScreeningCriteria) -> tuple[int | None, int | None]:
        """The part of the hour that matters (s); nothing without a violation."""
        if self.first_violation_s is None or self.last_violation_s is None:
            return None, None
        return control_window(self.first_violation_s, self.last_violation_s, criteria)


MeasuredCandidate = tuple[Candidate, Floats | None]
"""What a worker sends back: a candidate, and its (baseline, OFO) penalty traces, if kept, of shape (2, T)."""


def measure_candidate(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    """Figures of one seed; a power flow that diverges, or an error of the simulation, becomes a failure.

    Raises:
        MissingDataError, DataFileError: The data are not there; no candidate could be measured.
    """
    assets = load_assets(plan.experiment, plan.specs_dir)
    scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
    candidate = Candidate(seed, scenario_digest(scenario), scenario.params.pv_scale, scenario.params.load_scale)
    try:
        simulated = simulator(scenario, as_screened(plan.experiment), assets, plan.engine)
        baseline = _finite(simulated.run("none"))
    except (PowerFlowError, ValueError, RuntimeError) as error:
        return replace(candidate, failure=_failure("baseline", error)), None
    first_s, last_s = _violation_span(baseline.penalties)
    candidate = replace(candidate, baseline=baseline.measures, first_violation_s=first_s, last_violation_s=last_s)
    if judge_baseline(baseline.measures, plan.criteria, plan.kinds) is not None and not plan.full_table:
        return candidate, None
    try:
        ofo = _finite(simulated.run("ofo"))
    except (PowerFlowError, ValueError, RuntimeError) as error:
        return replace(candidate, failure=_failure("ofo", error)), None
    always_min = always_at_smallest(ofo.rollout, plan.experiment)
    candidate = replace(candidate, ofo=ofo.measures, ofo_always_min=always_min)
    if judge(baseline.measures, ofo.measures, plan.criteria) is not Reason.ACCEPTED:
        return candidate, None
    return candidate, np.stack([baseline.penalties, ofo.penalties])


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


def _violation_span(penalties: Floats) -> tuple[int | None, int | None]:
    """First and last second in violation (s)."""
    seconds = np.flatnonzero(penalties > 0)
    return (int(seconds[0]), int(seconds[-1])) if len(seconds) else (None, None)


def _failure(stage: str, error: Exception) -> StageFailure:
    if isinstance(error, PowerFlowError):
        return StageFailure(Reason.POWER_FLOW_DIVERGED, stage, error.step, str(error))
    return StageFailure(Reason.ERROR, stage, None, one_line(error))
