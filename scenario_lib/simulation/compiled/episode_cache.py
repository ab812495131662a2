"""Compiled episodes of this process, as many as fit: a scenario that is played again begins within milliseconds."""

from collections import OrderedDict
from collections.abc import Callable, Hashable

from scenario_lib.execution.fork_lock import fork_safe_lock
from scenario_lib.feeders.checks import require_at_least
from scenario_lib.simulation.compiled.episode import CompiledEpisode

EPISODE_CACHE_MB = 512
"""Memory for compiled episodes in each process (MB); about 1 MB for 1000 seconds of five models."""

_BYTES_PER_MB = 1_000_000


class SameObject:
    """An object as part of a key: itself, whatever it holds. Keeps the object, so that its identity is not reused."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObject) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


class EpisodeCache:
    """Episodes by key; those used longest ago go first. Threads may share it.

    Args:
        capacity_mb: Memory of the episodes together (MB). One that is larger alone is made, but not kept.
    """

    def __init__(self, capacity_mb: float = EPISODE_CACHE_MB) -> None:
        self._known: OrderedDict[Hashable, CompiledEpisode] = OrderedDict()
        self._lock = fork_safe_lock()
        self.n_bytes = 0
        self.resize(capacity_mb)

    def resize(self, capacity_mb: float) -> None:
        """Another capacity (MB); 0 keeps nothing.

        Raises:
            InvalidSettingError: Less than 0.
        """
        require_at_least("capacity_mb", capacity_mb, 0)
        with self._lock:
            self._capacity = int(capacity_mb * _BYTES_PER_MB)
            self._shrink()

    def get(self, key: Hashable, make: Callable[[], CompiledEpisode]) -> CompiledEpisode:
        """The episode of a key, made if it is not there."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        episode = make()
        with self._lock:
            # Another thread may have made the same meanwhile; both are equal.
            if key not in self._known:
                self._known[key] = episode
                self.n_bytes += episode.n_bytes
                self._shrink()
        return episode

    def clear(self) -> None:
        """Forget all episodes."""
        with self._lock:
            self._known.clear()
            self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def _shrink(self) -> None:
        while self.n_bytes > self._capacity:
            _, dropped = self._known.popitem(last=False)
            self.n_bytes -= dropped.n_bytes


EPISODES = EpisodeCache()
"""Those of this process."""
