"""Which record an environment plays next: seeded, different for each worker, and reproducible from one base seed.

Streams are keyed: worker i of base seed s draws from SeedSequence(s, spawn_key=(i,)), so that no worker of one base
seed shares a stream with a worker of another, as sums of seed and worker would.
"""

from dataclasses import dataclass

import numpy as np

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.checks import refuse
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.view import LibraryView

Library = ScenarioLibrary | LibraryView
COVERAGES = ("random", "disjoint")
_EPOCH_KEY = 0x65706F6368  # apart from every worker's key


@dataclass(frozen=True, slots=True)
class Worker:
    """Position of an environment among those that train together."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.index < self.count:
            raise refuse("worker", (self.index, self.count), "(i, k) with 0 <= i < k")


def worker_generator(seed: int, worker: Worker) -> np.random.Generator:
    """The generator of one worker under a base seed."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(worker.index,))))


class ScenarioPicker:
    """Draws records at random, or goes through the library so that all workers see each once before any twice.

    Args:
        library: What is played.
        worker: Position among the workers; needed for disjoint coverage.
        coverage: "random" or "disjoint". Disjoint coverage holds for workers reset with one base seed.
    """

    def __init__(self, library: Library, worker: Worker | None, coverage: str) -> None:
        if coverage not in COVERAGES:
            raise refuse("coverage", coverage, f"one of {', '.join(COVERAGES)}")
        self._library = library
        self._worker = worker or Worker(0, 1)
        self._coverage = coverage
        self._base_seed: int | None = None
        self._taken = 0

    def restart(self, seed: int) -> None:
        """Begin the order of a base seed."""
        self._base_seed, self._taken = seed, 0

    def pick(self, rng: np.random.Generator) -> ScenarioRecord:
        """The next record.

        Raises:
            InvalidSettingError: Disjoint coverage without a seed: workers could not agree on an order.
        """
        if self._coverage == "random":
            return self._library.sample(rng)
        if self._base_seed is None:
            raise InvalidSettingError("coverage='disjoint' needs reset(seed=...), the same for all workers")
        position = self._worker.index + self._taken * self._worker.count
        self._taken += 1
        epoch, place = divmod(position, len(self._library))
        order = np.random.default_rng(
            np.random.SeedSequence(self._base_seed, spawn_key=(_EPOCH_KEY, epoch))
        ).permutation(len(self._library))
        return self._library[int(order[place])]
