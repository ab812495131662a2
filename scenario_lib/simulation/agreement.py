"""How far the compiled engine and the reference one agree on a scenario, and why where they do not.

Voltages agree within `AGREEMENT_PU` and decisions are the same, but for what lies on an edge: a continuous batch size
between two feasible ones, or a voltage at a limit, may fall either way. Such cases are told from others here.

How near a decision of OFO lay to where its batch size rounds the other way, and what moves it.

OFO rounds a continuous batch size, kept as x = log2(batch size), to the nearest feasible one. Engines whose voltages
differ by at most d differ in x as well, so an x that lies on the boundary between two sizes may fall either way.
To first order x is off by at most

    (|dx/dV| + |dx/ds| 2 / (p h)) d

The first term is what the duals take from voltages. They act together if all voltages are off the same way, which for
duals is both limits moved the other way: that is how dx/dV is found. The second is the sensitivities' part. Each is a
difference of two voltages over a perturbation of p kW, so off by at most 2 d / p, beside a typical size of h. They
are multiplied by the scale of the voltage gradient: moving that finds dx/ds, the response to sensitivities that are
larger by a part of themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats, Ints
from scenario_lib.feeders.experiment import Experiment, VoltageLimits
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.circuit import AGREEMENT_PU
from scenario_lib.simulation.compiled.controllers import OFOSettings, OFOState
from scenario_lib.simulation.compiled.jit import compiling_once
from scenario_lib.simulation.compiled.power_flow import OPENDSS
from scenario_lib.simulation.compiled.rollout import CompiledScenario, empty_record, ofo_controllers, run_ofo, start_of
from scenario_lib.simulation.rollout import Rollout


@dataclass(frozen=True, slots=True)
class DecisionFlip:
    """One decision of OFO that the engines took differently.

    Attributes:
        second: When the batch sizes are in use.
        model: (site, model label).
        compiled, reference: Batch sizes on the engines.
        distance: Way of the compiled engine's continuous batch size to where it would round to the other, as log2.
        reach: How far voltages that differ as they did until then can move it; see `compiled.rounding`.
    """

    second: int
    model: tuple[str, str]
    compiled: int
    reference: int
    distance: float
    reach: float

    @property
    def explained(self) -> bool:
        return self.distance <= self.reach

    def __str__(self) -> str:
        site, label = self.model
        return (
            f"batch size of {label} at {site} {self.compiled} (compiled) or {self.reference} (reference) from second "
            f"{self.second}: {self.distance:.1e} from the rounding boundary in log2(batch size), "
            f"{'within' if self.explained else 'beyond'} the {self.reach:.1e} that the voltages can move it"
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two rollouts of a scenario under OFO compare.

    Attributes:
        voltage_pu: Largest voltage difference while batch sizes are the same.
        seconds_apart: Seconds with different batch sizes.
        first_apart: The first of them, None if there are none.
        flips: The decisions that differ then; empty if these engines promise nothing about each other.
    """

    voltage_pu: float
    seconds_apart: int
    first_apart: int | None
    flips: tuple[DecisionFlip, ...] = ()

    @property
    def explained(self) -> bool:
        """Whether all decisions are the same, or voltages agree as they should and can explain those that differ first.

        What differs later follows from these.
        """
        if self.first_apart is None:
            return True
        return bool(self.flips) and self.voltage_pu <= AGREEMENT_PU and all(flip.explained for flip in self.flips)


def compare_rollouts(one: Rollout, other: Rollout) -> Agreement:
    """Compare two rollouts of a scenario, of the same length."""
    apart = np.flatnonzero(np.any(one.batch_sizes != other.batch_sizes, axis=1))
    first = int(apart[0]) if len(apart) else None
    voltage_pu = float(np.abs(one.voltages_pu[:first] - other.voltages_pu[:first]).max(initial=0.0))
    return Agreement(voltage_pu, len(apart), first)


def compare_ofo(
    scenario: Scenario, experiment: Experiment, assets: Assets, compiled: Rollout, reference: Rollout
) -> Agreement:
    """Compare the OFO rollouts of a scenario on the compiled engine and on the reference one."""
    agreement = compare_rollouts(compiled, reference)
    if agreement.first_apart is None:
        return agreement
    # Compiled once more, since it hardly ever is.
    from scenario_lib.simulation.compiled.rollout import compile_scenario

    tables = compile_scenario(scenario, experiment, assets, agreement.first_apart)
    flips = _flips(tables, agreement.first_apart, agreement.voltage_pu, compiled, reference)
    return replace(agreement, flips=tuple(flips))


def _flips(
    tables: "CompiledScenario", second: int, voltage_pu: float, compiled: Rollout, reference: Rollout
) -> Iterator[DecisionFlip]:

    x, per_pu = continuous_batches(tables, second)
    ours, theirs = compiled.batch_sizes[second], reference.batch_sizes[second]
    for m in np.flatnonzero(ours != theirs).tolist():
        yield DecisionFlip(
            second=second,
            model=compiled.model_labels[m],
            compiled=int(ours[m]),
            reference=int(theirs[m]),
            distance=rounding_distance(x[m], int(theirs[m]), tables.tables.batch_sizes[m]),
            reach=float(per_pu[m] * voltage_pu),
        )


def at_a_limit(voltages_pu: NDArray[np.float64], limits: VoltageLimits) -> NDArray[np.bool_]:
    """Seconds at which some voltage lies so near to a limit that it may count as a violation or not; shape (T,)."""
    edges = (np.abs(voltages_pu - limit) <= AGREEMENT_PU for limit in (limits.v_min_pu, limits.v_max_pu))
    return np.asarray(np.any(np.logical_or(*edges), axis=1))


_STEP_PU, _STEP_OF_SCALE = 1e-10, 1e-8
"""Steps of the difference quotients: far above rounding errors, and rarely enough to change a decision themselves."""


def continuous_batches(compiled: CompiledScenario, n_seconds: int) -> tuple[Floats, Floats]:
    """x of every model after OFO acted for `n_seconds`, and how much a voltage difference moves it (1/pu); shapes (M,).

    The controllers read OpenDSS's tolerance, as screening does.
    """
    tuning = ofo_controllers(compiled).settings
    state = _state_after(compiled, n_seconds, tuning)
    moved = tuning._replace(v_min=tuning.v_min + _STEP_PU, v_max=tuning.v_max + _STEP_PU)
    steeper = tuning._replace(voltage_gradient_scale=tuning.voltage_gradient_scale * (1 + _STEP_OF_SCALE))
    dx_dv = np.abs(_state_after(compiled, n_seconds, moved).x - state.x) / _STEP_PU
    dx_ds = np.abs(_state_after(compiled, n_seconds, steeper).x - state.x) / _STEP_OF_SCALE
    typical = float(np.median(np.abs(state.sensitivity).max(axis=2)))
    return state.x, dx_dv + dx_ds * 2 / (tuning.sensitivity_perturbation_kw * typical)


def rounding_distance(x: float, batch_size: int, feasible: Ints) -> float:
    """Distance of x from the interval that is rounded to a batch size; infinite for one that is not feasible."""
    sizes = np.unique(feasible)
    if batch_size not in sizes:
        return float("inf")
    boundaries = np.concatenate([[-np.inf], np.log2((sizes[1:] + sizes[:-1]) / 2), [np.inf]])
    at = int(np.searchsorted(sizes, batch_size))
    return float(max(boundaries[at] - x, x - boundaries[at + 1], 0.0))


def _state_after(compiled: CompiledScenario, n_seconds: int, tuning: OFOSettings) -> OFOState:
    controllers = ofo_controllers(compiled)._replace(settings=tuning)
    with compiling_once("policy-ofo"):
        run_ofo(*start_of(compiled), OPENDSS, controllers, empty_record(compiled, n_seconds))
    return controllers.state
