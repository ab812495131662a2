"""One episode on the compiled engine: a step is one call of machine code."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.action import MoveReader
from scenario_lib.env.compiled_stage import CompiledStage
from scenario_lib.env.compiled_world import CompiledWorld
from scenario_lib.env.episode import Episode
from scenario_lib.env.game import DrawScenario, GameSettings, Observation, Turn
from scenario_lib.env.reward import STATISTICS, TERMS
from scenario_lib.execution.held_signals import signals_held


class CompiledGame:
    """See `Game`."""

    def __init__(self, world: CompiledWorld, settings: GameSettings) -> None:
        config = settings.obs_config
        self._world, self._stage = world, CompiledStage(1, world, settings)
        self._labels = config.model_labels
        self._reader = MoveReader.of(settings.env.action_mode, config.model_labels, config.feasible_batch_sizes)

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._stage.v_index

    @signals_held()
    def begin(self, episode: Episode, draw: DrawScenario) -> tuple[Observation, dict[str, int]]:
        self._stage.begin(0, episode, self._world.episode(episode, draw))
        self._stage.progress.active[0] = True
        self._look_up_rows()
        return self._row.copy(), self._batch_sizes()

    def _look_up_rows(self) -> None:
        """Rows of arrays that every step fills in again; looked up once an episode, as a step takes microseconds."""
        outcome = self._stage.outcome
        self._moves, self._converged = self._stage.progress.moves[0], outcome.converged
        self._row, self._reward, self._sizes = outcome.observation[0], outcome.reward, outcome.batch_size[0]
        self._terms, self._statistics = outcome.terms[0], outcome.statistics[0]
        self._play = self._stage.play

    def play(self, action: object, episode: Episode) -> Turn:
        self._moves[:] = self._reader.read(action)
        episode.step += 1
        self._play()
        if not self._converged[0]:
            return Turn(self._row.copy(), 0.0, self._batch_sizes(), {}, {}, self._stage.failure(0))
        return Turn(
            self._row.copy(),
            self._reward.item(),
            self._batch_sizes(),
            dict(zip(TERMS, self._terms.tolist(), strict=True)),
            dict(zip(STATISTICS, self._statistics.tolist(), strict=True)),
            None,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledGame":
        """A game that goes on from here by itself, with rows of its own."""
        twin = object.__new__(CompiledGame)
        twin._world, twin._labels, twin._reader = self._world, self._labels, self._reader
        twin._stage = copy.deepcopy(self._stage, memo)
        if twin._stage.begun:
            twin._look_up_rows()
        return twin

    def voltages_vector(self) -> NDArray[np.float64]:
        return np.array(self._stage.outcome.voltages_pu[0])

    def close(self) -> None:
        """Tables are kept for the next episode, or go with this object."""

    def _batch_sizes(self) -> dict[str, int]:
        return dict(zip(self._labels, self._sizes.tolist(), strict=True))
