"""How far the compiled engine and the reference one agree on a scenario, and why where they do not.

Voltages agree within `AGREEMENT_PU` and decisions are the same, but for what lies on an edge: a continuous batch size
between two feasible ones, or a voltage at a limit, may fall either way. Such cases are told from others here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.feeder import Limits
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.rollout import Rollout

if TYPE_CHECKING:
    from scenario_lib.simulation.compiled.engine import CompiledScenario

AGREEMENT_PU = 5e-8
"""Largest voltage difference of the engines that is accepted."""


@dataclass(frozen=True, slots=True)
class Flip:
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
    flips: tuple[Flip, ...] = ()

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
    from scenario_lib.simulation.compiled.engine import compile_scenario

    tables = compile_scenario(scenario, experiment, assets, agreement.first_apart)
    flips = _flips(tables, agreement.first_apart, agreement.voltage_pu, compiled, reference)
    return replace(agreement, flips=tuple(flips))


def _flips(
    tables: "CompiledScenario", second: int, voltage_pu: float, compiled: Rollout, reference: Rollout
) -> Iterator[Flip]:
    from scenario_lib.simulation.compiled.rounding import continuous_batches, way_to

    x, per_pu = continuous_batches(tables, second)
    ours, theirs = compiled.batch_sizes[second], reference.batch_sizes[second]
    for m in np.flatnonzero(ours != theirs).tolist():
        yield Flip(
            second=second,
            model=compiled.model_labels[m],
            compiled=int(ours[m]),
            reference=int(theirs[m]),
            distance=way_to(x[m], int(theirs[m]), tables.tables.batch_sizes[m]),
            reach=float(per_pu[m] * voltage_pu),
        )


def at_a_limit(voltages_pu: NDArray[np.float64], limits: Limits) -> NDArray[np.bool_]:
    """Seconds at which some voltage lies so near to a limit that it may count as a violation or not; shape (T,)."""
    edges = (np.abs(voltages_pu - limit) <= AGREEMENT_PU for limit in (limits.v_min_pu, limits.v_max_pu))
    return np.asarray(np.any(np.logical_or(*edges), axis=1))
