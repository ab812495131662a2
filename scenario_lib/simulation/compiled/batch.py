"""A few threads that wait for work, for steps of a tenth of a millisecond.

numba's own threads take as long to start on a step as they save, and cannot be given a `Game`.

Episodes played side by side, each of a scenario, window and second of its own; they are replaced one by one.

Stepping scenarios with batch sizes from outside, second by second: one, or many in lockstep.

A batch size given to `step` acts in that same second. Environments play whole steps in machine code, see `fleet`; this
is for whoever decides in Python.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Bools, Floats, Ints
from scenario_lib.errors import InvalidSettingError, NotCopyableError
from scenario_lib.execution.process import signals_held
from scenario_lib.simulation.compiled.circuit import Circuit, start_state
from scenario_lib.simulation.compiled.episode import CompiledEpisode, EpisodeTables, GridCheckpoint, SiteArrays
from scenario_lib.simulation.compiled.jit import Kernel, compiling_once
from scenario_lib.simulation.compiled.power_flow import OPENDSS, GridState, Tolerance, factorise_admittance
from scenario_lib.simulation.compiled.step_kernels import EpisodeState, advance, assemble, begin, play, state_of
from scenario_lib.simulation.compiled.step_tables import (
    NO_LAYOUT,
    NO_WEIGHTS,
    Clock,
    EpisodeProgress,
    ObservationLayout,
    RewardWeights,
    StepArrays,
    StepTables,
    empty_progress,
    empty_step_arrays,
)

Job = Callable[[], None]


class ThreadTeam:
    """Threads that work beside the calling one, until this object is gone.

    They start with the first work that they are given, and anew in a process that was forked since.

    Args:
        n_helpers: Threads beside the calling one.
    """

    def __init__(self, n_helpers: int) -> None:
        self._n_helpers = n_helpers
        self._tasks: list[SimpleQueue[Job | None]] = []
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._process: int | None = None

    def run(self, jobs: Sequence[Job]) -> None:
        """Do all jobs, at most one per thread, the first of them in this thread; raises what one of them raises."""
        if self._process != os.getpid():
            self._start()
        for tasks, job in zip(self._tasks, jobs[1:], strict=False):
            tasks.put(job)
        try:
            jobs[0]()
        finally:
            errors = [self._done.get() for _ in jobs[1:]]
        for error in errors:
            if error is not None:
                raise error

    def _start(self) -> None:
        self._process, self._done = os.getpid(), SimpleQueue()
        self._tasks = [SimpleQueue() for _ in range(self._n_helpers)]
        for tasks in self._tasks:
            threading.Thread(target=_work, args=(tasks, self._done), daemon=True).start()
        weakref.finalize(self, _dismiss, self._tasks)


def _work(tasks: "SimpleQueue[Job | None]", done: "SimpleQueue[BaseException | None]") -> None:
    while (job := tasks.get()) is not None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for it
            done.put(error)
        else:
            done.put(None)
        del job  # what it works on may be gone before the next comes


def _dismiss(tasks: "Sequence[SimpleQueue[Job | None]]") -> None:
    for one in tasks:
        one.put(None)


NEVER_CHANGED = 999
"""Steps since the last change of batch, when an episode begins."""

_HEAD_START = 0.125
"""The calling thread's larger share, as the others wake up while it is at work already."""

_TABLES = ("model_power_w", "training_w", "element_kw", "itl_s", "active_replicas", "base_w")


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What is played for: how time goes, what is observed, what is paid.

    Attributes:
        threads: Episodes are shared out among so many.
    """

    clock: Clock
    layout: ObservationLayout
    weights: RewardWeights
    threads: int = 1


class BatchSimulator:
    """N episodes on one circuit.

    Attributes:
        progress, outcome: See `play_tables`; the next step overwrites them.
    """

    def __init__(self, n_episodes: int, circuit: Circuit, deployment: SiteArrays, rules: BatchSettings) -> None:
        self.circuit, self.deployment, self._rules = circuit, deployment, rules
        n_models, n_observed = len(deployment.model_labels), len(rules.layout.model)
        self.progress: EpisodeProgress = empty_progress(n_episodes, n_models, n_observed)
        self.outcome: StepArrays = empty_step_arrays(
            n_episodes, rules.layout, len(circuit.bus_phases), deployment.site_of_model
        )
        self._states = _stacked_states(circuit, n_episodes)
        self._tables: StepTables | None = None
        self._tables_shared = False
        self._games: list[EpisodeState] = []
        self._shares = list(pairwise(shares_of(n_episodes, min(rules.threads, n_episodes))))
        self._crew = ThreadTeam(len(self._shares) - 1)

    def __deepcopy__(self, memo: dict[int, Any]) -> "BatchSimulator":
        """A fleet that goes on from here by itself; both share the tables until one of them loads an episode."""
        del memo
        twin = object.__new__(BatchSimulator)
        self._tables_shared = True
        vars(twin).update(vars(self))
        twin.progress, twin.outcome = EpisodeProgress(*_copies(self.progress)), StepArrays(*_copies(self.outcome))
        twin._states = GridState(*_copies(self._states))
        twin._crew = ThreadTeam(len(self._shares) - 1)
        twin._games = [twin._assembled() for _ in self._games]
        return twin

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError(
            "an environment whose episode has begun cannot be pickled; send what makes it, and reset it with the same "
            "seed and actions there. Within a process copy.deepcopy(env) plays on from here"
        )

    def load(self, i: int, episode: CompiledEpisode, ofo_penalty: NDArray[np.float64] | None = None) -> bool:
        """Replace episode i, leaving the others as they are, and simulate its first interval.

        Args:
            ofo_penalty: Squared violations under OFO (pu^2) at every second of the window; all episodes or none.

        Returns:
            Whether the power flow converged.

        Raises:
            InvalidSettingError: The episode has another circuit or other models.
        """
        self.put(i, episode, ofo_penalty)
        self.prepare(play)
        with compiling_once("begin"):
            return bool(begin(self._games[0], i))

    def put(self, i: int, episode: CompiledEpisode, ofo_penalty: NDArray[np.float64] | None = None) -> None:
        """As `load`, but leave the episode at its beginning."""
        self._require_alike(episode)
        self._put_tables(i, episode.tables, ofo_penalty)
        progress = self.progress
        progress.first_second[i] = episode.checkpoint.second
        progress.step[i], progress.since_change[i] = 0, NEVER_CHANGED
        progress.levels[i] = episode.initial_levels
        self.restore(i, episode.checkpoint)

    def prepare(self, kernel: Kernel) -> None:
        """Have the machine code of a step made under the lock, by a step of no episode."""
        with compiling_once(kernel.__name__):
            kernel(self._games[0], 0, 0)

    def restore(self, i: int, checkpoint: GridCheckpoint) -> None:
        """Have episode i go on from a checkpoint."""
        state = state_of(self._states, i)
        for name in ("v", "magnitude_v", "admittance"):
            getattr(state, name)[:] = getattr(checkpoint, name)
        # The first second of a rollout makes its own.
        if checkpoint.second > 0:
            with compiling_once("restore"):
                factorise_admittance(self.circuit.network, state)
        self.progress.second[i] = checkpoint.second

    def checkpoint(self, i: int) -> GridCheckpoint:
        """From where episode i goes on."""
        state = state_of(self._states, i)
        arrays = state.v.copy(), state.magnitude_v.copy(), state.admittance.copy()
        return GridCheckpoint(int(self.progress.second[i]), *arrays)

    def active_replicas(self, i: int) -> NDArray[np.int64]:
        """Of episode i in the second last simulated, shape (M,)."""
        if self._tables is None:
            raise InvalidSettingError("no episode was loaded")
        t = self.progress.second[i] - 1 - self.progress.first_second[i]
        return np.asarray(self._tables.active_replicas[i, t])

    def play(self) -> None:
        """One step of all active episodes with the moves that `progress` holds."""
        self._run(play)

    def advance(self) -> None:
        """Simulate one interval of all active episodes at the batch levels that `progress` holds."""
        self._run(advance)

    def _run(self, kernel: Kernel) -> None:
        if len(self._games) == 1:
            kernel(self._games[0], *self._shares[0])
        else:
            parts = zip(self._games, self._shares, strict=True)
            # An interrupted wait would leave the other threads at work on what the next step fills in.
            with signals_held():
                self._crew.run([partial(kernel, game, *share) for game, share in parts])

    def _require_alike(self, episode: CompiledEpisode) -> None:
        same_models = episode.deployment.model_labels == self.deployment.model_labels
        if episode.circuit is not self.circuit or not same_models:
            raise InvalidSettingError(
                "a scenario has another circuit or other models than the one before, which cannot be stepped in "
                "lockstep; restrict the library to one recipe, or use environments of their own "
                "(vectorization_mode 'sync' or 'async')"
            )

    def _put_tables(self, i: int, tables: EpisodeTables, ofo_penalty: NDArray[np.float64] | None) -> None:
        """Copy an episode's tables into row i, with more room for all if it needs that."""
        rows = {name: getattr(tables, name) for name in _TABLES}
        before = self._own_tables()
        n = len(self.progress.active)
        room = {name: _fitting(None if before is None else getattr(before, name), n, rows[name]) for name in _TABLES}
        penalty = self.progress.ofo_penalty
        if ofo_penalty is not None:
            penalty = _fitting(penalty, n, ofo_penalty)
            penalty[i, : len(ofo_penalty)] = ofo_penalty
        for name, row in rows.items():
            _put_row(room[name], i, row)
        grown = self._tables is None or any(room[name] is not getattr(self._tables, name) for name in _TABLES)
        if grown or penalty is not self.progress.ofo_penalty:
            self.progress = self.progress._replace(ofo_penalty=penalty)
            self._tables = self._fleet_tables(room)
            # Threads count references to arrays, so that one `Game` for all would pass between them all the time.
            self._games = [self._assembled() for _ in self._shares]

    def _own_tables(self) -> StepTables | None:
        """The tables, or a copy of those that another fleet plays from too."""
        tables = self._tables
        if tables is None or not self._tables_shared:
            return tables
        self._tables_shared = False
        return tables._replace(**{name: getattr(tables, name).copy() for name in _TABLES})

    def _fleet_tables(self, room: dict[str, NDArray]) -> StepTables:  # type: ignore[type-arg]
        deployment = self.deployment
        return StepTables(
            site_of_model=deployment.site_of_model,
            datacenter_tan=deployment.datacenter_tan,
            element_tan=deployment.element_tan,
            element_of_part=deployment.element_of_part,
            **room,
        )

    def _assembled(self) -> EpisodeState:
        rules = self._rules
        with compiling_once("assemble"):
            game: EpisodeState = assemble(
                self.circuit.network,
                self._states,
                self._tables,
                rules.clock,
                rules.layout,
                rules.weights,
                self.progress,
                self.outcome,
            )
        return game


def shares_of(n_episodes: int, n_threads: int) -> list[int]:
    """Where each thread's episodes begin, and where the last one's end; the first thread has a few more."""
    weights = np.cumsum([0.0, 1.0 + _HEAD_START, *[1.0] * (n_threads - 1)])
    return [int(edge) for edge in np.rint(n_episodes * weights / weights[-1])]


def _fitting(room: NDArray | None, n: int, row: NDArray) -> NDArray:  # type: ignore[type-arg]
    """The room itself if the row fits, else a larger one with what it held."""
    held = (0,) * row.ndim if room is None else room.shape[1:]
    if room is not None and all(has >= wants for has, wants in zip(held, row.shape, strict=True)):
        return room
    larger = np.zeros((n, *np.maximum(held, row.shape)), row.dtype)
    if room is not None:
        larger[tuple(map(slice, room.shape))] = room
    return larger


def _put_row(room: NDArray, i: int, row: NDArray) -> None:  # type: ignore[type-arg]
    """Copy a row in. What lies beyond is never looked at, but for training runs, which must be 0."""
    if row.shape != room.shape[1:]:
        room[i] = 0
    room[i][tuple(slice(size) for size in row.shape)] = row


def _copies(arrays: Iterable[Any]) -> list[Any]:
    return [array.copy() for array in arrays]


def _stacked_states(circuit: Circuit, n_episodes: int) -> GridState:
    state = start_state(circuit.network)
    return GridState(*(np.repeat(array[None], n_episodes, axis=0) for array in state))  # type: ignore[arg-type]


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
        rules = BatchSettings(Clock(1, *tolerance), NO_LAYOUT, NO_WEIGHTS, threads)
        self._fleet = BatchSimulator(len(collected), self.circuit, deployment, rules)
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

    def checkpoint(self, scenario: int) -> GridCheckpoint:
        """From where one scenario's next step goes on."""
        return self._fleet.checkpoint(scenario)

    def restore(self, scenario: int, checkpoint: GridCheckpoint) -> None:
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
