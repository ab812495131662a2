"""Episodes that are compiled while others are played, so that no step waits for the one that comes next.

Which episodes come is decided before, by seeds; a thread only changes when they are compiled.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

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

    Args:
        world: Compiles them.
    """

    def __init__(self, world: CompiledWorld) -> None:
        self._world = world
        self._coming: dict[int, _Coming] = {}
        self._thread: ThreadPoolExecutor | None = None

    def expect(self, place: int, episode: Episode, draw: DrawScenario) -> None:
        """Begin to compile the episode that a place will play next, in place of any other expected there."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="episodes-ahead")
        self._drop(place)
        self._coming[place] = _Coming(episode.record, self._thread.submit(self._world.episode, episode, draw))

    def episode(self, place: int, episode: Episode, draw: DrawScenario) -> CompiledEpisode:
        """The episode: the expected one, for which this waits if need be, or one compiled here.

        Raises:
            PowerFlowError, ReplayError: As from compiling it here, whichever thread met it.
        """
        expected = self._coming.pop(place, None)
        if expected is not None and expected.record is episode.record:
            return expected.made.result()
        return self._world.episode(episode, draw)

    def close(self) -> None:
        """Expect nothing any more, and end the thread once it has finished what it is at."""
        for place in list(self._coming):
            self._drop(place)
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread = None

    def _drop(self, place: int) -> None:
        dropped = self._coming.pop(place, None)
        if dropped is not None:
            dropped.made.cancel()
