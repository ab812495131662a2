"""Episodes played side by side on one circuit, in slots that are loaded one by one.

A `BatchSimulator` plays whole steps of environments in machine code; or it solves one second after another at batch
sizes from outside, for whoever decides in Python. Both give the same numbers, whatever the number of threads.

numba's own threads take as long to start on a step of a tenth of a millisecond as they save, and cannot be given a
`BatchState`; so a few threads of ours wait for work.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats, Ints
from scenario_lib.errors import InvalidSettingError, NotCopyableError, PowerFlowError
from scenario_lib.execution.process import ThreadTeam
from scenario_lib.simulation.compiled.circuit import Circuit, start_state
from scenario_lib.simulation.compiled.episode import CompiledEpisode, EpisodeTables, GridCheckpoint, SiteArrays
from scenario_lib.simulation.compiled.jit import Kernel, compiling_once
from scenario_lib.simulation.compiled.power_flow import OPENDSS, GridState, Tolerance, factorise_admittance
from scenario_lib.simulation.compiled.step_kernels import BatchState, advance, assemble, begin, play, state_of
from scenario_lib.simulation.compiled.step_tables import (
    NEVER_CHANGED,
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

_HEAD_START = 0.125
"""The calling thread's larger share, as the others wake up while it is at work already."""

_TABLES = ("model_power_w", "training_w", "element_kw", "itl_s", "active_replicas", "base_w")


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """What is played for: how time goes, what is observed, what is paid.

    Attributes:
        threads: Slots are shared out among so many. Those beside the calling one start with the first step, and a
            process that is to fork should not have any.
    """

    clock: Clock
    layout: ObservationLayout = NO_LAYOUT
    weights: RewardWeights = NO_WEIGHTS
    threads: int = 1


class BatchSimulator:
    """N slots for episodes on one circuit, of the same models; each is as it would be alone.

    Tables are copied, about 1 MB for 1000 seconds of five models, so that an episode may be dropped once it is loaded.

    Attributes:
        circuit, sites: What all episodes share.
        progress, outcome: See `step_tables`; the next step overwrites them.
    """

    progress: EpisodeProgress
    outcome: StepArrays

    def __init__(self, n_slots: int, circuit: Circuit, sites: SiteArrays, settings: BatchSettings) -> None:
        self.circuit, self.sites, self._settings = circuit, sites, settings
        self.progress = empty_progress(n_slots, len(sites.model_labels), len(settings.layout.model))
        self.outcome = empty_step_arrays(n_slots, settings.layout, len(circuit.bus_phases), sites.site_of_model)
        self._states = _stacked_states(circuit, n_slots)
        self._ends = np.zeros(n_slots, np.int64)
        self._tables: StepTables | None = None
        self._tables_shared = False
        self._shares = list(pairwise(shares_of(n_slots, min(settings.threads, n_slots))))
        self._team = ThreadTeam(len(self._shares) - 1)
        self._assemble()

    @classmethod
    def of(
        cls, episodes: Iterable[CompiledEpisode], *, tolerance: Tolerance = OPENDSS, threads: int = 1
    ) -> "BatchSimulator":
        """Slots with these episodes at their beginnings, for `step`; nothing is observed or paid.

        Raises:
            InvalidSettingError: No episode, or another circuit or other models in one.
        """
        collected = list(episodes)
        if not collected:
            raise InvalidSettingError("stepping needs at least one scenario; none was given")
        settings = BatchSettings(Clock(1, *tolerance), threads=threads)
        simulator = cls(len(collected), collected[0].circuit, collected[0].deployment, settings)
        for slot, episode in enumerate(collected):
            simulator.load(slot, episode)
        simulator._prepare(advance)
        simulator.progress.active[:] = True
        return simulator

    @property
    def batch_sizes(self) -> Ints:
        """Feasible batch sizes of each model, rising, filled up with the largest, shape (M, L)."""
        return self.sites.batch_sizes

    @property
    def seconds(self) -> Ints:
        """Second that each slot's next power flow solves, shape (N,)."""
        return self.progress.second

    def begin(self, slot: int, episode: CompiledEpisode, ofo_penalty: Floats | None = None) -> None:
        """Load an episode and simulate its first interval at its initial batch sizes.

        Raises:
            InvalidSettingError: The episode has another circuit or other models.
            PowerFlowError: The power flow did not converge.
        """
        self.load(slot, episode, ofo_penalty)
        self._prepare(play)
        with compiling_once("begin"):
            converged = begin(self._batches[0], slot)
        if not converged:
            raise self.failure(slot)

    def load(self, slot: int, episode: CompiledEpisode, ofo_penalty: Floats | None = None) -> None:
        """Put an episode at its beginning into a slot, leaving the others as they are.

        Args:
            ofo_penalty: Squared violations under OFO (pu^2) at every second of the window; all episodes or none.

        Raises:
            InvalidSettingError: The episode has another circuit or other models.
        """
        self._require_alike(episode)
        self._put_tables(slot, episode.tables, ofo_penalty)
        progress, checkpoint = self.progress, episode.checkpoint
        progress.first_second[slot], self._ends[slot] = checkpoint.second, checkpoint.second + episode.n_seconds
        progress.step[slot], progress.since_change[slot] = 0, NEVER_CHANGED
        progress.levels[slot] = episode.initial_levels
        self.restore(slot, checkpoint)

    def play(self) -> None:
        """One step of all active slots with the moves that `progress` holds: act, simulate, observe, reward."""
        self._team.run(self._play)

    def step(self, batch_sizes: Ints) -> StepArrays:
        """Simulate one interval of all active slots at batch sizes from outside, which act within it.

        Args:
            batch_sizes: Of every slot and model, feasible ones, shape (N, M).

        Returns:
            `outcome`; nothing is observed or rewarded. A slot that did not converge stays at its second.

        Raises:
            InvalidSettingError: A batch size that is not feasible, or a slot that is at its end.
        """
        ended = np.flatnonzero(self.seconds >= self._ends)
        if ended.size:
            raise InvalidSettingError(
                f"scenario {ended[0]} is at its end, second {self._ends[ended[0]]}; restore a checkpoint first"
            )
        self.progress.levels[:] = self._levels(np.asarray(batch_sizes, np.int64))
        return self.advance()

    def advance(self) -> StepArrays:
        """Simulate one interval of all active slots at the levels that `progress` holds; see `step`."""
        self._team.run(self._advance)
        return self.outcome

    def failure(self, slot: int) -> PowerFlowError:
        """What went wrong where the power flow did not converge."""
        return PowerFlowError(int(self.seconds[slot]), "step")

    def active_replicas(self, slot: int) -> Ints:
        """Replicas of whole servers in the second last simulated, shape (M,)."""
        if self._tables is None:
            raise InvalidSettingError("no episode was loaded")
        t = self.seconds[slot] - 1 - self.progress.first_second[slot]
        return np.asarray(self._tables.active_replicas[slot, t])

    @property
    def layout(self) -> ObservationLayout:
        """What is observed of which models."""
        return self._settings.layout

    @property
    def feasible_positions(self) -> Ints:
        """Place of each observed model's batch size among its feasible ones, rising, shape (N, K)."""
        layout = self.layout
        return np.asarray(layout.position[np.arange(len(layout.model)), self.progress.levels[:, layout.model]])

    def checkpoint(self, slot: int) -> GridCheckpoint:
        """From where a slot's next power flow goes on."""
        state = state_of(self._states, slot)
        arrays = state.v.copy(), state.magnitude_v.copy(), state.admittance.copy()
        return GridCheckpoint(int(self.seconds[slot]), *arrays)

    def restore(self, slot: int, checkpoint: GridCheckpoint) -> None:
        """Put a slot back to a checkpoint of its episode, taken here, elsewhere, or in a rollout.

        Raises:
            InvalidSettingError: A second outside the episode.
        """
        first, end = int(self.progress.first_second[slot]), int(self._ends[slot])
        if not first <= checkpoint.second <= end:
            raise InvalidSettingError(
                f"the checkpoint is of second {checkpoint.second}; scenario {slot} has seconds {first} to {end - 1}"
            )
        state = state_of(self._states, slot)
        for name in ("v", "magnitude_v", "admittance"):
            getattr(state, name)[:] = getattr(checkpoint, name)
        # The first second of a rollout makes its own.
        if checkpoint.second > 0:
            with compiling_once("restore"):
                factorise_admittance(self.circuit.network, state)
        self.seconds[slot] = checkpoint.second

    def __deepcopy__(self, memo: dict[int, Any]) -> "BatchSimulator":
        """One that goes on from here by itself; both share the tables until one of them loads an episode."""
        del memo
        twin = object.__new__(BatchSimulator)
        self._tables_shared = True
        vars(twin).update(vars(self))
        twin.progress, twin.outcome = EpisodeProgress(*_copies(self.progress)), StepArrays(*_copies(self.outcome))
        twin._states, twin._ends = GridState(*_copies(self._states)), self._ends.copy()
        twin._team = ThreadTeam(len(self._shares) - 1)
        twin._assemble()
        return twin

    def __reduce__(self) -> NoReturn:
        raise NotCopyableError(
            "an environment whose episode has begun cannot be pickled; send what makes it, and reset it with the same "
            "seed and actions there. Within a process copy.deepcopy(env) plays on from here"
        )

    def _require_alike(self, episode: CompiledEpisode) -> None:
        same_models = episode.deployment.model_labels == self.sites.model_labels
        if episode.circuit is not self.circuit or not same_models:
            raise InvalidSettingError(
                "a scenario has another circuit or other models than the one before, which cannot be stepped in "
                "lockstep; restrict the library to one recipe, or use environments of their own "
                "(vectorization_mode 'sync' or 'async')"
            )

    def _put_tables(self, slot: int, tables: EpisodeTables, ofo_penalty: Floats | None) -> None:
        """Copy an episode's tables into a slot, with more room for all if it needs that."""
        rows = {name: getattr(tables, name) for name in _TABLES}
        before = self._own_tables()
        n = len(self._ends)
        room = {name: _fitting(None if before is None else getattr(before, name), n, rows[name]) for name in _TABLES}
        penalty = self.progress.ofo_penalty
        if ofo_penalty is not None:
            penalty = _fitting(penalty, n, ofo_penalty)
            penalty[slot, : len(ofo_penalty)] = ofo_penalty
        for name, row in rows.items():
            _put_row(room[name], slot, row)
        grown = self._tables is None or any(room[name] is not getattr(self._tables, name) for name in _TABLES)
        if grown or penalty is not self.progress.ofo_penalty:
            self.progress = self.progress._replace(ofo_penalty=penalty)
            self._tables = self._stacked_tables(room)
            self._assemble()

    def _own_tables(self) -> StepTables | None:
        """The tables, or a copy of those that another simulator plays from too."""
        tables = self._tables
        if tables is None or not self._tables_shared:
            return tables
        self._tables_shared = False
        return tables._replace(**{name: getattr(tables, name).copy() for name in _TABLES})

    def _stacked_tables(self, room: dict[str, NDArray]) -> StepTables:  # type: ignore[type-arg]
        sites = self.sites
        return StepTables(
            site_of_model=sites.site_of_model,
            datacenter_tan=sites.datacenter_tan,
            element_tan=sites.element_tan,
            element_of_part=sites.element_of_part,
            **room,
        )

    def _assemble(self) -> None:
        """What each thread does in a step, with the arrays that there are now; nothing before the first is loaded."""
        # Threads count references to arrays, so that one `BatchState` for all would pass between them all the time.
        self._batches = [] if self._tables is None else [self._state() for _ in self._shares]
        shared = list(zip(self._batches, self._shares, strict=False))
        self._play = [partial(play, batch, *share) for batch, share in shared]
        self._advance = [partial(advance, batch, *share) for batch, share in shared]

    def _state(self) -> BatchState:
        settings = self._settings
        with compiling_once("assemble"):
            state: BatchState = assemble(
                self.circuit.network,
                self._states,
                self._tables,
                settings.clock,
                settings.layout,
                settings.weights,
                self.progress,
                self.outcome,
            )
        return state

    def _prepare(self, kernel: Kernel) -> None:
        """Have the machine code of a step made under the lock, by a step of no slot."""
        with compiling_once(kernel.__name__):
            kernel(self._batches[0], 0, 0)

    def _levels(self, batch_sizes: Ints) -> Ints:
        """Level of each batch size, shape (N, M)."""
        expected = self.progress.levels.shape
        if batch_sizes.shape != expected:
            raise InvalidSettingError(
                f"batch_sizes has shape {batch_sizes.shape}; expected {expected}: scenarios, models"
            )
        # Sizes beyond the table meet its last columns, which are -1.
        columns = np.clip(batch_sizes, 0, self._level_of.shape[1] - 1)
        levels = self._level_of[np.arange(expected[1]), columns]
        if levels.min() < 0:
            model = int(np.argmin(levels.min(axis=0)))
            raise InvalidSettingError(
                f"batch sizes {sorted(set(batch_sizes[:, model].tolist()))} of model {model}; expected some of "
                f"{self.batch_sizes[model, : self.sites.n_levels[model]].tolist()}"
            )
        return levels

    @cached_property
    def _level_of(self) -> Ints:
        """Level of each batch size from 0 to beyond the largest, -1 where not feasible; shape (M, largest + 2)."""
        table = np.full((len(self.batch_sizes), int(self.batch_sizes.max()) + 2), -1, np.int64)
        for model, sizes in enumerate(self.batch_sizes):
            # From the last on, so that a size that fills up the row has the level at which it comes first.
            for level in range(len(sizes) - 1, -1, -1):
                table[model, sizes[level]] = level
        return table


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
