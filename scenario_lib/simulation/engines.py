"""Two engines behind one interface: the compiled one, and openg2g on OpenDSS as they are.

`Engine` says which; `simulator` gives something that runs a scenario's policies and measures them. What the compiled
engine does not model it refuses by name, and the caller decides whether to take the reference engine.
"""

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Protocol

from scenario_lib._arrays import Floats
from scenario_lib._values import refuse, refused
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.metrics.voltage import VoltageMeasures, measure_voltages, penalty_trace
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.controller import ControllerPolicy
from scenario_lib.simulation.opendss.datacenters import Policy, as_policy
from scenario_lib.simulation.rollout import Rollout, checked_arguments, run_reference

COMPILED, REFERENCE = "compiled", "reference"
ENGINES = (COMPILED, REFERENCE)
TOLERANCES = ("opendss", "accurate")


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine that rollouts run on.

    Attributes:
        name: "compiled" or "reference".
        tolerance: When the compiled engine's power flow stops: "opendss" as OpenDSS does, step for step; "accurate"
            at 1e-7 pu, which decides differently where OFO is sensitive to OpenDSS's early stop.
    """

    name: str = COMPILED
    tolerance: str = "opendss"

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise refuse("engine", self.name, f"one of {', '.join(ENGINES)}")
        if self.tolerance not in TOLERANCES:
            raise refuse("tolerance", self.tolerance, f"one of {', '.join(TOLERANCES)}")
        if self.name == REFERENCE and self.tolerance != "opendss":
            raise refuse("tolerance", self.tolerance, "'opendss' with the reference engine, which is OpenDSS")

    @property
    def label(self) -> str:
        """The name that libraries give it: "reference", "compiled", or "compiled/accurate"."""
        return self.name if self.tolerance == "opendss" else f"{self.name}/{self.tolerance}"


def engine_from_label(label: str) -> Engine:
    """The engine that a library names.

    Raises:
        InvalidSettingError: No such engine.
    """
    name, _, tolerance = label.partition("/")
    return Engine(name, tolerance or "opendss")


def as_engine(field: str, value: object) -> Engine:
    """An engine, or its label; see `arguments`."""
    if isinstance(value, Engine):
        return value
    if not isinstance(value, str):
        raise refused(field, value, f"an Engine, or one of {', '.join(ENGINES)}")
    return engine_from_label(value)


@dataclass(frozen=True, slots=True)
class Simulated:
    """A rollout with its measures.

    Attributes:
        penalties: Sum of squared violations (pu^2) at every second, shape (T,).
    """

    rollout: Rollout
    measures: VoltageMeasures
    penalties: Floats


class PreparedScenario(Protocol):
    """One scenario, ready to be run under any policy."""

    def run(self, policy: Policy) -> Simulated:
        """Run one policy: one by name, or a controller.

        Raises:
            PowerFlowError: The power flow did not converge; the error has the second.
            UnknownNameError: No policy of that name.
        """
        ...


def simulator(scenario: Scenario, experiment: Experiment, assets: Assets, engine: Engine) -> PreparedScenario:
    """A scenario on an engine.

    Raises:
        NotModelledError: The compiled engine does not model the feeder.
        PowerFlowError: OpenDSS does not converge at start-up.
    """
    if engine.name == REFERENCE:
        return _ReferenceScenarioRunner(scenario, experiment, assets)
    return _CompiledScenarioRunner(scenario, experiment, assets, engine.tolerance)


def run_rollout(
    scenario: Scenario,
    experiment: Experiment | str | Path,
    assets: Assets,
    policy: Policy = "none",
    n_steps: int = DURATION_S,
    engine: Engine | str = REFERENCE,
) -> Rollout:
    """Simulate a scenario under a policy.

    Args:
        scenario: As `randomize_scenario` draws it or a library's `materialize` returns it.
        experiment: What it is a variation of: an experiment, or what `load_experiment` takes.
        assets: As `load_assets` returns them.
        policy: One of `POLICIES` by name, a controller (a function of `Now`), or, on the reference engine, an object
            that makes openg2g's controllers, such as a trained policy.
        n_steps: Seconds.
        engine: An engine or its label: "reference" (openg2g on OpenDSS) or "compiled", which is a hundred times faster.

    Raises:
        InvalidSettingError: An argument of another type, no seconds, or a scenario of another feeder.
        NotModelledError: The compiled engine does not model the feeder.
        PowerFlowError: The power flow did not converge; the error has the second.
        UnknownNameError: No policy of that name.
        ControllerError: The controller raised an error, or returned something else than feasible batch sizes.
        ValueError, RuntimeError: From openg2g, where a drawn ramp needs more GPUs than its site has.
    """
    chosen = as_engine("engine", engine)
    if chosen.name == REFERENCE:
        return run_reference(scenario, experiment, assets, policy, n_steps)
    known, whole = checked_arguments(scenario, experiment, assets, policy, n_steps)
    from scenario_lib.simulation.compiled.rollout import compile_scenario

    compiled = compile_scenario(scenario, whole, assets, n_steps)
    return run_policy(compiled, known, power_flow_tolerance(chosen.tolerance))


def run_policy(compiled: Any, policy: Policy = "none", tolerance: Any = None) -> Rollout:
    """Run a compiled scenario under a policy: one by name, or a controller.

    Args:
        compiled: A `CompiledScenario`.
        policy: What to run.
        tolerance: Where the power flow stops; None as OpenDSS does.

    Raises:
        UnknownNameError: No policy of that name.
        InvalidSettingError: No policy, or one that makes openg2g's controllers, which only the reference engine calls.
        PowerFlowError: The power flow does not converge; the error has the second.
        ControllerError: The controller raised an error, or returned something else than feasible batch sizes.
    """
    from scenario_lib.simulation.compiled.controlled import run_controller
    from scenario_lib.simulation.compiled.rollout import run_compiled

    known = as_policy(policy)
    stop = power_flow_tolerance("opendss") if tolerance is None else tolerance
    if isinstance(known, str):
        return run_compiled(compiled, known, stop)
    if isinstance(known, ControllerPolicy):
        return run_controller(compiled, known, stop)
    raise refused("policy", policy, "a name or a controller; openg2g's own run on the reference engine")


def prepare(experiment: Experiment, assets: Assets, engine: Engine) -> str | None:
    """Make an engine ready before workers start: find what it does not model, and compile its kernels once.

    Returns:
        What the compiled engine does not model, by name; None if the engine can take the experiment.
    """
    if engine.name == REFERENCE:
        return None
    from scenario_lib.errors import NotModelledError
    from scenario_lib.simulation.compiled.rollout import compile_scenario, warm_up

    try:
        compile_scenario(base_scenario(experiment), experiment, assets, n_seconds=1)
        warm_up(experiment, assets)
    except NotModelledError as error:
        return error.what
    return None


def power_flow_tolerance(name: str) -> Any:
    """Where the compiled engine's power flow stops, by the name that an `Engine` gives it."""
    from scenario_lib.simulation.compiled.power_flow import ACCURATE, OPENDSS

    return OPENDSS if name == "opendss" else ACCURATE


class _ReferenceScenarioRunner:
    def __init__(self, scenario: Scenario, experiment: Experiment, assets: Assets) -> None:
        self._parts = (scenario, experiment, assets)
        self._band = astuple(experiment.limits)

    def run(self, policy: Policy) -> Simulated:
        rollout = run_reference(*self._parts, policy)
        voltages = rollout.voltages_pu
        return Simulated(rollout, measure_voltages(voltages, *self._band), penalty_trace(voltages, *self._band))


class _CompiledScenarioRunner:
    # Imported here, because loading the kernels takes a while that the reference engine need not pay.
    def __init__(self, scenario: Scenario, experiment: Experiment, assets: Assets, tolerance: str) -> None:
        from scenario_lib.simulation.compiled.rollout import compile_scenario

        self._compiled = compile_scenario(scenario, experiment, assets)
        self._tolerance = power_flow_tolerance(tolerance)
        self._band = astuple(experiment.limits)

    def run(self, policy: Policy) -> Simulated:
        from scenario_lib.simulation.compiled.rollout import measure_rollout

        rollout = run_policy(self._compiled, policy, self._tolerance)
        return Simulated(rollout, *measure_rollout(rollout.voltages_pu, *self._band))
