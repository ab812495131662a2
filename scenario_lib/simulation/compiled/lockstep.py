"""Stepping scenarios with batch sizes from outside, second by second: one, or many in lockstep.

A batch size given to `step` acts in that same second. Environments play whole steps in machine code, see `fleet`; this
is for whoever decides in Python.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError
from scenario_lib.simulation.compiled.checkpoint import Checkpoint
from scenario_lib.simulation.compiled.episode import CompiledEpisode
from scenario_lib.simulation.compiled.fleet import Fleet, Rules
from scenario_lib.simulation.compiled.play_kernels import advance
from scenario_lib.simulation.compiled.play_tables import NO_LAYOUT, NO_WEIGHTS, Clock
from scenario_lib.simulation.compiled.power_flow import OPENDSS, Tolerance

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Observed(NamedTuple):
    """What a step leaves behind, N scenarios; all but `converged` stay as they were where the power flow failed.

    Attributes:
        voltages_pu: Shape (N, bus-phases).
        power_w: Shape (N, S, 3).
        itl_s: Shape (N, M).
        converged: Shape (N,).
    """

    voltages_pu: Floats
    power_w: Floats
    itl_s: Floats
    converged: Bools


class Lockstep:
    """N scenarios on the same circuit and models, stepped together; equal to N alone, whatever the threads.

    Each starts where its episode does.

    Attributes:
        circuit: The one that all share.
        batch_sizes: Feasible batch sizes of each model, rising, filled up with the largest, shape (M, L).
        seconds: Second that each scenario's next step solves, shape (N,).
    """

    def __init__(
        self, episodes: Iterable[CompiledEpisode], *, tolerance: Tolerance = OPENDSS, threads: int = 1
    ) -> None:
        """Copy the tables, about 1 MB for 1000 seconds of five models; the episodes may be dropped afterwards.

        Args:
            threads: With 1, everything happens in the calling thread. More are started by the first step, and a
                process that is to fork should not have any.

        Raises:
            InvalidSettingError: No episode, or another circuit or other models in one.
        """
        collected = list(episodes)
        if not collected:
            raise InvalidSettingError("lockstep needs at least one scenario; none was given")
        first = collected[0]
        self.circuit, deployment = first.circuit, first.deployment
        rules = Rules(Clock(1, *tolerance), NO_LAYOUT, NO_WEIGHTS, threads)
        self._fleet = Fleet(len(collected), self.circuit, deployment, rules)
        for place, episode in enumerate(collected):
            self._fleet.put(place, episode)
        self.batch_sizes, self._n_levels = deployment.batch_sizes, deployment.n_levels
        self._level_of = _levels_by_batch_size(self.batch_sizes)
        self._models = np.arange(len(self.batch_sizes))
        self._ends = np.array([episode.checkpoint.second + episode.n_seconds for episode in collected])
        self.seconds: Ints = self._fleet.progress.second
        outcome = self._fleet.outcome
        self._observed = Observed(outcome.voltages_pu, outcome.power_w, outcome.itl_s, outcome.converged)
        self._fleet.prepare(advance)
        self._fleet.progress.active[:] = True

    def step(self, batch_sizes: Ints) -> Observed:
        """Solve one second of every scenario.

        Args:
            batch_sizes: Of every scenario and model, feasible ones, shape (N, M).

        Returns:
            Arrays of this step, overwritten by the next. A scenario that did not converge stays at its second.

        Raises:
            InvalidSettingError: A batch size that is not feasible, or a scenario that is at its end.
        """
        if (self.seconds >= self._ends).any():
            scenario = int(np.argmax(self.seconds >= self._ends))
            raise InvalidSettingError(
                f"scenario {scenario} is at its end, second {self._ends[scenario]}; restore a checkpoint first"
            )
        self._fleet.progress.levels[:] = self._levels(np.asarray(batch_sizes, np.int64))
        self._fleet.advance()
        return self._observed

    def active_replicas(self, scenario: int) -> Ints:
        """Replicas of whole servers in the second just stepped, shape (M,)."""
        return self._fleet.active_replicas(scenario)

    def checkpoint(self, scenario: int) -> Checkpoint:
        """From where one scenario's next step goes on."""
        return self._fleet.checkpoint(scenario)

    def restore(self, scenario: int, checkpoint: Checkpoint) -> None:
        """Put one scenario back to a checkpoint of its own, taken here or in another stepper or rollout.

        Raises:
            InvalidSettingError: A second outside its episode.
        """
        first = int(self._fleet.progress.first_second[scenario])
        if not first <= checkpoint.second <= self._ends[scenario]:
            raise InvalidSettingError(
                f"the checkpoint is of second {checkpoint.second}; scenario {scenario} has seconds {first} to "
                f"{self._ends[scenario] - 1}"
            )
        self._fleet.restore(scenario, checkpoint)

    def _levels(self, batch_sizes: Ints) -> Ints:
        expected = len(self.seconds), len(self._models)
        if batch_sizes.shape != expected:
            raise InvalidSettingError(
                f"batch_sizes has shape {batch_sizes.shape}; expected {expected}: scenarios, models"
            )
        # Sizes beyond the table meet its last columns, which are -1.
        levels = self._level_of[self._models, np.clip(batch_sizes, 0, self._level_of.shape[1] - 1)]
        if levels.min() < 0:
            model = int(np.argmin(levels.min(axis=0)))
            raise InvalidSettingError(
                f"batch sizes {sorted(set(batch_sizes[:, model].tolist()))} of model {model}; expected some of "
                f"{self.batch_sizes[model, : self._n_levels[model]].tolist()}"
            )
        return levels


def _levels_by_batch_size(batch_sizes: Ints) -> Ints:
    """Level of each batch size from 0 to beyond the largest, -1 where it is not feasible; shape (M, largest + 2)."""
    table = np.full((len(batch_sizes), int(batch_sizes.max()) + 2), -1, np.int64)
    for model, sizes in enumerate(batch_sizes):
        # From the last on, so that a size that fills up the row has the level at which it comes first.
        for level in range(len(sizes) - 1, -1, -1):
            table[model, sizes[level]] = level
    return table
