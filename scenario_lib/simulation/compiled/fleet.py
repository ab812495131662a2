"""Episodes played side by side, each of a scenario, window and second of its own; they are replaced one by one."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError, NotCopyableError
from scenario_lib.execution.held_signals import signals_held
from scenario_lib.simulation.compiled.assemble import start_state
from scenario_lib.simulation.compiled.checkpoint import Checkpoint
from scenario_lib.simulation.compiled.circuit import Circuit
from scenario_lib.simulation.compiled.compile_once import compiling_once
from scenario_lib.simulation.compiled.crew import Crew
from scenario_lib.simulation.compiled.episode import CompiledEpisode, Deployment, EpisodeTables
from scenario_lib.simulation.compiled.kernels import Kernel
from scenario_lib.simulation.compiled.play_kernels import Game, advance, assemble, begin, play
from scenario_lib.simulation.compiled.play_tables import (
    Clock,
    Layout,
    Outcome,
    PlayTables,
    Progress,
    Weights,
    empty_outcome,
    empty_progress,
)
from scenario_lib.simulation.compiled.power_flow import GridState, factorise_admittance
from scenario_lib.simulation.compiled.step_kernels import state_of

NEVER_CHANGED = 999
"""Steps since the last change of batch, when an episode begins."""

_HEAD_START = 0.125
"""The calling thread's larger share, as the others wake up while it is at work already."""

_TABLES = ("model_power_w", "training_w", "element_kw", "itl_s", "active_replicas", "base_w")


@dataclass(frozen=True, slots=True)
class Rules:
    """What is played for: how time goes, what is observed, what is paid.

    Attributes:
        threads: Episodes are shared out among so many.
    """

    clock: Clock
    layout: Layout
    weights: Weights
    threads: int = 1


class Fleet:
    """N episodes on one circuit.

    Attributes:
        progress, outcome: See `play_tables`; the next step overwrites them.
    """

    def __init__(self, n_episodes: int, circuit: Circuit, deployment: Deployment, rules: Rules) -> None:
        self.circuit, self.deployment, self._rules = circuit, deployment, rules
        n_models, n_observed = len(deployment.model_labels), len(rules.layout.model)
        self.progress: Progress = empty_progress(n_episodes, n_models, n_observed)
        self.outcome: Outcome = empty_outcome(
            n_episodes, rules.layout, len(circuit.bus_phases), deployment.site_of_model
        )
        self._states = _stacked_states(circuit, n_episodes)
        self._tables: PlayTables | None = None
        self._tables_shared = False
        self._games: list[Game] = []
        self._shares = list(pairwise(shares_of(n_episodes, min(rules.threads, n_episodes))))
        self._crew = Crew(len(self._shares) - 1)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Fleet":
        """A fleet that goes on from here by itself; both share the tables until one of them loads an episode."""
        del memo
        twin = object.__new__(Fleet)
        self._tables_shared = True
        vars(twin).update(vars(self))
        twin.progress, twin.outcome = Progress(*_copies(self.progress)), Outcome(*_copies(self.outcome))
        twin._states = GridState(*_copies(self._states))
        twin._crew = Crew(len(self._shares) - 1)
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

    def restore(self, i: int, checkpoint: Checkpoint) -> None:
        """Have episode i go on from a checkpoint."""
        state = state_of(self._states, i)
        for name in ("v", "magnitude_v", "admittance"):
            getattr(state, name)[:] = getattr(checkpoint, name)
        # The first second of a rollout makes its own.
        if checkpoint.second > 0:
            with compiling_once("restore"):
                factorise_admittance(self.circuit.network, state)
        self.progress.second[i] = checkpoint.second

    def checkpoint(self, i: int) -> Checkpoint:
        """From where episode i goes on."""
        state = state_of(self._states, i)
        arrays = state.v.copy(), state.magnitude_v.copy(), state.admittance.copy()
        return Checkpoint(int(self.progress.second[i]), *arrays)

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

    def _own_tables(self) -> PlayTables | None:
        """The tables, or a copy of those that another fleet plays from too."""
        tables = self._tables
        if tables is None or not self._tables_shared:
            return tables
        self._tables_shared = False
        return tables._replace(**{name: getattr(tables, name).copy() for name in _TABLES})

    def _fleet_tables(self, room: dict[str, NDArray]) -> PlayTables:  # type: ignore[type-arg]
        deployment = self.deployment
        return PlayTables(
            site_of_model=deployment.site_of_model,
            datacenter_tan=deployment.datacenter_tan,
            element_tan=deployment.element_tan,
            element_of_part=deployment.element_of_part,
            **room,
        )

    def _assembled(self) -> Game:
        rules = self._rules
        with compiling_once("assemble"):
            game: Game = assemble(
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
