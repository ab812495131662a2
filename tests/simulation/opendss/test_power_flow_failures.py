"""A power flow that does not converge is an error with its second, never a number."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenario_lib.errors import PowerFlowError, ScenarioLibError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.feeders.sites import PowerSeries
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range
from scenario_lib.screening.candidate import MeasurePlan, measure_candidate
from scenario_lib.screening.criteria import Reason, ScreeningCriteria
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.rollout import compile_scenario, run_compiled
from scenario_lib.simulation.engines import ENGINES, Engine
from scenario_lib.simulation.rollout import Rollout, run_reference

Edit = Callable[[str, str], Path]


def run(experiment: Experiment, policy: str = "none", n_steps: int = 12) -> Rollout:
    return run_reference(base_scenario(experiment), experiment, load_assets(experiment), policy, n_steps)


def run_on_compiled(experiment: Experiment, policy: str, n_steps: int) -> Rollout:
    compiled = compile_scenario(base_scenario(experiment), experiment, load_assets(experiment), n_steps)
    return run_compiled(compiled, policy)


def with_load(experiment: Experiment, *points: tuple[float, float]) -> Experiment:
    """The experiment with its load going through these (s, kW per phase)."""
    times, powers = zip(*points, strict=True)
    return replace(experiment, overlay=None, loads=(replace(experiment.loads[0], series=PowerSeries(times, powers)),))


def heavy_village(edited_village: Edit, quay_kw: int) -> Experiment:
    """The village with a load that stays constant power down to a tenth of its voltage, so that it can collapse."""
    return load_experiment(edited_village("kw=90   kvar=30", f"kw={quay_kw} kvar=30 vminpu=0.1"))


def failure(experiment: Experiment, policy: str = "none", n_steps: int = 12) -> tuple[int | None, str]:
    """When and in what it fails, which is the same on both engines."""
    found = set()
    for engine in (run, run_on_compiled):
        with pytest.raises(PowerFlowError) as caught:
            engine(experiment, policy, n_steps)
        found.add((caught.value.step, caught.value.during))
    assert len(found) == 1, found
    return found.pop()


def test_in_a_step(village: Experiment) -> None:
    jump = with_load(village, (0.0, 1.0), (5.0, 1.0), (5.5, 5000.0))
    assert failure(jump) == (6, "step")
    assert failure(jump, "rule-based") == (6, "step")
    assert run(jump, n_steps=6).voltages_pu.shape[0] == 6


def test_in_the_very_first_step(village: Experiment) -> None:
    huge = replace(village.sites[0])
    object.__setattr__(huge, "base_kw_per_phase", 1.7e308)  # which a site refuses to be told
    assert failure(replace(village, sites=(huge,))) == (0, "step")


def test_at_start_up(edited_village: Edit) -> None:
    assert failure(heavy_village(edited_village, 5000)) == (None, "start-up")


def test_inside_a_sensitivity_estimate(edited_village: Edit) -> None:
    """The step itself converges; with the perturbation on top there is no solution."""
    village = heavy_village(edited_village, 1200)
    tuned = replace(village, ofo=replace(village.ofo, sensitivity_perturbation_kw=500.0))
    later = with_load(tuned, (0.0, 1.0), (250.0, 1.0), (290.0, 150.0))
    assert failure(later, "ofo", n_steps=302) == (300, "sensitivity estimate")
    assert run(later, "none", n_steps=302).voltages_pu.min() > 0.5
    gentle = replace(later, ofo=replace(later.ofo, sensitivity_perturbation_kw=5.0))
    assert run(gentle, "ofo", n_steps=302).voltages_pu.min() > 0.5


def test_inside_the_first_estimate(edited_village: Edit) -> None:
    village = heavy_village(edited_village, 1400)
    tuned = replace(village, ofo=replace(village.ofo, sensitivity_perturbation_kw=500.0))
    assert failure(tuned, "ofo") == (0, "sensitivity estimate")


@pytest.mark.parametrize("engine", [Engine(name) for name in ENGINES], ids=ENGINES)
def test_a_candidate_is_recorded_with_reason_and_step(
    edited_village: Edit, village: Experiment, engine: Engine
) -> None:
    settings = RandomizationSettings(load_scale=Range(1.0, 1.0))
    jump = with_load(village, (0.0, 1.0), (50.0, 1.0), (50.5, 5000.0))
    candidate, traces = measure_candidate(MeasurePlan(jump, settings, ScreeningCriteria(), engine=engine), 7)
    assert traces is None
    assert candidate.baseline is None
    failed = candidate.failure
    assert failed is not None
    assert (failed.reason, failed.stage, failed.step) == (Reason.POWER_FLOW_DIVERGED, "baseline", 51)
    assert failed.message == "the power flow did not converge at second 51 (during the step)"

    start, _ = measure_candidate(
        MeasurePlan(heavy_village(edited_village, 5000), settings, ScreeningCriteria(), engine=engine), 7
    )
    failed = start.failure
    assert failed is not None
    assert (failed.reason, failed.stage, failed.step) == (Reason.POWER_FLOW_DIVERGED, "baseline", None)
    assert failed.message == "the power flow did not converge before the first step (during the start-up)"


def test_the_error_says_where_and_survives_pickling() -> None:
    """Workers send it back."""
    error = PowerFlowError(300, "sensitivity estimate")
    assert str(error) == "the power flow did not converge at second 300 (during the sensitivity estimate)"
    assert str(PowerFlowError(0, "step")) == "the power flow did not converge at second 0 (during the step)"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.step, copy.during, str(copy)) == (PowerFlowError, 300, "sensitivity estimate", str(error))
    assert isinstance(error, ScenarioLibError)
    assert isinstance(error, ArithmeticError)
