"""Stepping compiled scenarios with batch sizes from outside: one, or many in lockstep.

This is what environments play. A batch size given to `step` acts in that same second.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError, PowerFlowError
from scenario_lib.simulation.compiled.assemble import start_state
from scenario_lib.simulation.compiled.circuit import Circuit
from scenario_lib.simulation.compiled.compile_once import compiling_once
from scenario_lib.simulation.compiled.crew import Crew
from scenario_lib.simulation.compiled.engine import CompiledScenario, empty_record
from scenario_lib.simulation.compiled.latency import LatencyFits
from scenario_lib.simulation.compiled.loops import CONVERGED, run_uncontrolled
from scenario_lib.simulation.compiled.power_flow import (
    OPENDSS,
    GridState,
    Network,
    Tolerance,
    factorise_admittance,
)
from scenario_lib.simulation.compiled.step_kernels import (
    FleetTables,
    Floats,
    Ints,
    Observed,
    fill_power_table,
    state_of,
    step_scenarios,
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that the power flow of `second` depends on, besides what the scenario prescribes.

    Attributes:
        v: Node voltages of the second before (V), ground last, shape (n + 1,).
        magnitude_v: Their magnitudes, shape (n,).
        admittance: Admittances that Y holds for each load part (S), shape (K,).
    """

    second: int
    v: NDArray[np.complex128]
    magnitude_v: Floats
    admittance: NDArray[np.complex128]


class Lockstep:
    """N scenarios on the same circuit and models, stepped together; equal to N alone, whatever the threads.

    Scenarios start at second 0; `restore` puts one to another second.

    Attributes:
        batch_sizes: Feasible batch sizes of each model, rising, filled up with the largest, shape (M, L).
        seconds: Second that each scenario's next step solves, shape (N,).
    """

    def __init__(
        self,
        scenarios: Iterable[CompiledScenario],
        *,
        window_s: tuple[int, int] | None = None,
        tolerance: Tolerance = OPENDSS,
        threads: int = 1,
    ) -> None:
        """Build the tables, about 1 MB for 1000 seconds of five models; compiled scenarios may be dropped afterwards.

        Args:
            window_s: First second and end of what will be stepped; all by default.

            threads: With 1, everything happens in the calling thread. More are started by the first step, and a
                process that is to fork should not have any.

        Raises:
            InvalidSettingError: No scenario, another circuit or other models in one, or a window beyond its end.
        """
        collected = [_Collected.of(compiled, window_s) for compiled in scenarios]
        if not collected:
            raise InvalidSettingError("lockstep needs at least one scenario; none was given")
        _require_alike(collected)
        first = collected[0]
        self.circuit, self.batch_sizes, self._n_levels = first.circuit, first.batch_sizes, first.n_levels
        self._level_of = _levels_by_batch_size(first.batch_sizes)
        self._end = first.window_s[1]
        self._tables, self._fits = _stacked(collected), first.latency_fits
        self._tolerance = tolerance
        self._states = _stacked_states(self.circuit, len(collected))
        self.seconds: Ints = np.zeros(len(collected), np.int64)
        self._observed = _room(self._tables, len(self.circuit.bus_phases))
        self._shares = self._shared_out(min(threads, len(collected)))
        self._crew = Crew(len(self._shares) - 1)

    def step(self, batch_sizes: Ints) -> Observed:
        """Solve one second of every scenario.

        Args:
            batch_sizes: Of every scenario and model, feasible ones, shape (N, M).

        Returns:
            Arrays of this step, overwritten by the next; `iterations` is 0 where the power flow did not converge.

        Raises:
            InvalidSettingError: A batch size that is not feasible, or a scenario outside the window.
        """
        if self.seconds.min() < self._tables.first_second or self.seconds.max() >= self._end:
            raise InvalidSettingError(
                f"seconds {self.seconds.min()} to {self.seconds.max()} are next; expected them within "
                f"{self._tables.first_second} to {self._end - 1}: restore a checkpoint, or widen window_s"
            )
        levels = self._levels(np.asarray(batch_sizes, np.int64))
        with compiling_once("step"):
            self._crew.run([partial(self._step_share, share, levels) for share in self._shares])
        return self._observed

    def _step_share(self, share: "_Share", levels: Ints) -> None:
        arguments = (share.states, share.tables, self._fits, share.seconds, levels[share.rows], self._tolerance)
        step_scenarios(share.network, *arguments, share.observed)

    def _shared_out(self, n_threads: int) -> "list[_Share]":
        """The scenarios in as many parts as there are threads, each with its own view of the arrays."""
        edges = np.linspace(0, len(self.seconds), n_threads + 1).astype(int)
        return [_Share.of(self, slice(start, stop)) for start, stop in pairwise(edges)]

    def active_replicas(self, scenario: int) -> Ints:
        """Replicas of whole servers in the second just stepped, shape (M,)."""
        second = int(self.seconds[scenario]) - 1 - self._tables.first_second
        return np.asarray(self._tables.active_replicas[scenario, second])

    def checkpoint(self, scenario: int) -> Checkpoint:
        """From where one scenario's next step goes on."""
        state = state_of(self._states, scenario)
        arrays = state.v.copy(), state.magnitude_v.copy(), state.admittance.copy()
        return Checkpoint(int(self.seconds[scenario]), *arrays)

    def restore(self, scenario: int, checkpoint: Checkpoint) -> None:
        """Put one scenario back to a checkpoint of its own, taken here or in another stepper or rollout."""
        state = state_of(self._states, scenario)
        state.v[:], state.magnitude_v[:] = checkpoint.v, checkpoint.magnitude_v
        state.admittance[:] = checkpoint.admittance
        factorise_admittance(self.circuit.network, state)
        self.seconds[scenario] = checkpoint.second

    def _levels(self, batch_sizes: Ints) -> Ints:
        n_scenarios, n_models = len(self.seconds), len(self.batch_sizes)
        if batch_sizes.shape != (n_scenarios, n_models):
            raise InvalidSettingError(
                f"batch_sizes has shape {batch_sizes.shape}; expected ({n_scenarios}, {n_models}): scenarios, models"
            )
        known = (batch_sizes >= 0) & (batch_sizes < self._level_of.shape[1])
        levels = self._level_of[np.arange(n_models), np.where(known, batch_sizes, 0)]
        if levels.min() < 0:
            model = int(np.argmin(levels.min(axis=0)))
            raise InvalidSettingError(
                f"batch sizes {sorted(set(batch_sizes[:, model].tolist()))} of model {model}; expected some of "
                f"{self.batch_sizes[model, : self._n_levels[model]].tolist()}"
            )
        return levels


def _levels_by_batch_size(batch_sizes: Ints) -> Ints:
    """Level of each batch size up to the largest, -1 where it is not feasible; shape (M, largest + 1)."""
    table = np.full((len(batch_sizes), int(batch_sizes.max()) + 1), -1, np.int64)
    for model, sizes in enumerate(batch_sizes):
        # From the last on, so that a size that fills up the row has the level at which it comes first.
        for level in range(len(sizes) - 1, -1, -1):
            table[model, sizes[level]] = level
    return table


def baseline_checkpoint(compiled: CompiledScenario, second: int, tolerance: Tolerance = OPENDSS) -> Checkpoint:
    """Where the baseline stands when `second` is next: the start of an episode inside a rollout.

    Raises:
        PowerFlowError: The power flow does not converge before.
    """
    network = compiled.circuit.network
    state, record = start_state(network), empty_record(compiled, second)
    with compiling_once("policy-none"):
        failed, outcome = run_uncontrolled(network, state, compiled.feeding, compiled.plant, tolerance, record)
    if outcome != CONVERGED:
        raise PowerFlowError(failed, "step")
    return Checkpoint(second, state.v, state.magnitude_v, state.admittance)


_PER_SCENARIO = (
    "model_power_w",
    "training_w",
    "element_kw",
    "active_replicas",
    "draw_start",
    "normal",
    "uniform",
    "base_w",
)
"""Fields of `FleetTables` with an axis of N in front; the others are the same for all scenarios."""


@dataclass(frozen=True, slots=True)
class _Share:
    """The scenarios of one thread: views of the stacked arrays."""

    rows: slice
    network: Network
    states: GridState
    tables: FleetTables
    seconds: Ints
    observed: Observed

    @classmethod
    def of(cls, lockstep: Lockstep, rows: slice) -> "_Share":
        tables = lockstep._tables
        return cls(
            rows=rows,
            # Counting who holds an array costs threads that share it more than the arithmetic does.
            network=deepcopy(lockstep.circuit.network),
            states=GridState(*(array[rows] for array in lockstep._states)),  # type: ignore[arg-type]
            tables=tables._replace(**{name: getattr(tables, name)[rows] for name in _PER_SCENARIO}),
            seconds=lockstep.seconds[rows],
            observed=Observed(*(array[rows] for array in lockstep._observed)),  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True)
class _Collected:
    """What a compiled scenario leaves in a fleet."""

    circuit: Circuit
    batch_sizes: Ints
    n_levels: Ints
    latency_fits: LatencyFits
    model_labels: tuple[tuple[str, str], ...]
    window_s: tuple[int, int]
    tables: FleetTables

    @classmethod
    def of(cls, compiled: CompiledScenario, window_s: tuple[int, int] | None) -> "_Collected":
        tables, plant, feeding = compiled.tables, compiled.plant, compiled.feeding
        n_seconds = len(tables.active_replicas)
        start, stop = window_s or (0, n_seconds)
        if not 0 <= start < stop <= n_seconds:
            raise InvalidSettingError(f"window_s is {window_s}; expected a start and an end within 0 to {n_seconds}")
        power_w = np.zeros((stop - start, *tables.batch_sizes.shape, 3))
        with compiling_once("power-table"):
            fill_power_table(tables.servers, start, tables.n_levels, power_w)
        fleet = FleetTables(
            first_second=start,
            model_power_w=power_w,
            training_w=tables.training_w[:, start:stop],
            element_kw=feeding.element_kw[start:stop],
            active_replicas=tables.active_replicas[start:stop],
            draw_start=tables.latency_draws.start[start:stop],
            normal=tables.latency_draws.normal,
            uniform=tables.latency_draws.uniform,
            base_w=tables.base_w,
            site_of_model=plant.site_of_model,
            datacenter_tan=feeding.datacenter_tan,
            element_tan=feeding.element_tan,
            element_of_part=feeding.element_of_part,
        )
        levels = tables.batch_sizes, tables.n_levels
        return cls(compiled.circuit, *levels, tables.latency_fits, tables.model_labels, (start, stop), fleet)


def _require_alike(collected: Sequence[_Collected]) -> None:
    first = collected[0]
    for i, other in enumerate(collected):
        if other.circuit is not first.circuit or other.model_labels != first.model_labels:
            raise InvalidSettingError(
                f"scenario {i} has another circuit or other models than scenario 0; lockstep expects the same for all"
            )
        if other.window_s != first.window_s:
            raise InvalidSettingError(f"scenario {i} lasts {other.window_s}; expected {first.window_s} as scenario 0")


def _stacked(collected: Sequence[_Collected]) -> FleetTables:
    tables = [one.tables for one in collected]
    return tables[0]._replace(
        model_power_w=np.stack([one.model_power_w for one in tables]),
        element_kw=np.stack([one.element_kw for one in tables]),
        active_replicas=np.stack([one.active_replicas for one in tables]),
        draw_start=np.stack([one.draw_start for one in tables]),
        base_w=np.stack([one.base_w for one in tables]),
        training_w=_padded([one.training_w for one in tables]),
        normal=_padded([one.normal for one in tables]),
        uniform=_padded([one.uniform for one in tables]),
    )


def _padded(arrays: Sequence[Floats]) -> Floats:
    """Stacked, those with a shorter first axis filled up with zeros, which no scenario adds or looks at."""
    longest = max(len(array) for array in arrays)
    out = np.zeros((len(arrays), longest, *arrays[0].shape[1:]))
    for i, array in enumerate(arrays):
        out[i, : len(array)] = array
    return out


def _stacked_states(circuit: Circuit, n_scenarios: int) -> GridState:
    state = start_state(circuit.network)
    return GridState(*(np.repeat(array[None], n_scenarios, axis=0) for array in state))  # type: ignore[arg-type]


def _room(tables: FleetTables, n_bus_phases: int) -> Observed:
    n_scenarios, n_models = tables.model_power_w.shape[0], tables.model_power_w.shape[2]
    return Observed(
        voltages_pu=np.zeros((n_scenarios, n_bus_phases)),
        power_w=np.zeros((n_scenarios, tables.base_w.shape[1], 3)),
        itl_s=np.zeros((n_scenarios, n_models)),
        iterations=np.zeros(n_scenarios, np.int64),
    )
