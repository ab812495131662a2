"""Episodes that are compiled while others are played, so that no step waits for the one that comes next.

Which episodes come is decided before, by seeds; a thread only changes when they are compiled.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from scenario_lib.env.compiled_world import CompiledWorld
from scenario_lib.env.episode import Episode
from scenario_lib.env.game import DrawScenario
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.simulation.compiled.episode import CompiledEpisode


class _Coming(NamedTuple):
    record: ScenarioRecord | None
    made: "Future[CompiledEpisode]"


class EpisodesAhead:
    """At most one episode per place, compiled in a thread of its own; the thread starts with the first of them.

    A process that was forked, and a copy, expect nothing at first, and compile what is asked for.

    Args:
        world: Compiles them.
    """

    def __init__(self, world: CompiledWorld) -> None:
        self._world = world
        self._coming: dict[int, _Coming] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def __deepcopy__(self, memo: dict[int, Any]) -> "EpisodesAhead":
        del memo
        return EpisodesAhead(self._world)

    def expect(self, place: int, episode: Episode, draw: DrawScenario) -> None:
        """Begin to compile the episode that a place will play next, in place of any other expected there."""
        self._forget_if_forked()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="episodes-ahead")
        self._drop(place)
        self._coming[place] = _Coming(episode.record, self._thread.submit(self._world.episode, episode, draw))

    def episode(self, place: int, episode: Episode, draw: DrawScenario) -> CompiledEpisode:
        """The episode: the expected one, for which this waits if need be, or one compiled here.

        Raises:
            PowerFlowError, ReplayError: As from compiling it here, whichever thread met it.
        """
        self._forget_if_forked()
        expected = self._coming.pop(place, None)
        if expected is not None and expected.record is episode.record:
            return expected.made.result()
        return self._world.episode(episode, draw)

    def close(self) -> None:
        """Expect nothing any more, and end the thread once it has finished what it is at."""
        self._forget_if_forked()
        for place in list(self._coming):
            self._drop(place)
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread = None

    def _forget_if_forked(self) -> None:
        """Threads stay behind in the process that forked, and with them whatever they were to make."""
        if self._process != os.getpid():
            self._process, self._thread, self._coming = os.getpid(), None, {}

    def _drop(self, place: int) -> None:
        dropped = self._coming.pop(place, None)
        if dropped is not None:
            dropped.made.cancel()
