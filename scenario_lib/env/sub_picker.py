"""Which records the environments of a vector environment play: each from a random stream of its own."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.picking import ScenarioPicker, Worker, worker_generator
from scenario_lib.env.reset_plan import is_listed, whole_seed
from scenario_lib.env.settings import EnvSettings
from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.record import ScenarioRecord


class SubPickers:
    """One picker and one generator per environment.

    Args:
        settings: `worker=(i, k)` makes the N environments numbers i N to i N + N - 1 of k N.
        n: Number of environments.
    """

    def __init__(self, settings: EnvSettings, n: int) -> None:
        outer = Worker(*(settings.worker or (0, 1)))
        self._workers = [Worker(outer.index * n + i, outer.count * n) for i in range(n)]
        self._library = library = settings.scenario_library
        self._pickers = [
            None if library is None else ScenarioPicker(library, worker, settings.coverage) for worker in self._workers
        ]
        self._generators = [np.random.default_rng() for _ in self._workers]
        self._next: list[ScenarioRecord | None] = [None] * n

    def seed(self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_]) -> None:
        """Begin the sequences of some environments anew.

        Args:
            seed: A base seed for all; or one base seed per environment, None for those that go on.

        Raises:
            InvalidSettingError: Another number of seeds than environments, or one that is no whole number.
        """
        n = len(self._workers)
        if is_listed(seed):
            seeds = [whole_seed(f"seed[{i}]", one) for i, one in enumerate(seed)]
        else:
            seeds = [whole_seed("seed", seed)] * n
        if len(seeds) != n:
            raise InvalidSettingError(f"seed has {len(seeds)} values; expected one, or {n}")
        for i, chosen in enumerate(seeds):
            if mask[i] and chosen is not None:
                self._restart(i, chosen)

    def named(self, scenario: int | None) -> ScenarioRecord | None:
        """The record of a seed that was asked for; None if none was.

        Raises:
            InvalidSettingError: One is asked for without a library.
            UnknownNameError: The library has none of that seed.
        """
        if scenario is None:
            return None
        if self._library is None:
            raise InvalidSettingError(f"options['scenario'] is {scenario!r}; expected none, without a library")
        return self._library.record_for(scenario)

    def pick(self, i: int) -> ScenarioRecord | None:
        """The next record of an environment; None without a library."""
        picker = self._pickers[i]
        if picker is None:
            return None
        known, self._next[i] = self._next[i], None
        return picker.pick(self._generators[i]) if known is None else known

    @property
    def peeked(self) -> list[ScenarioRecord | None]:
        """By environment, the record that was drawn ahead, if one was."""
        return self._next

    def peek(self, i: int) -> ScenarioRecord | None:
        """The record that `pick` will draw next, unless `seed` comes first; None without a library."""
        picker = self._pickers[i]
        if self._next[i] is None and picker is not None:
            self._next[i] = picker.pick(self._generators[i])
        return self._next[i]

    def _restart(self, i: int, seed: int) -> None:
        self._generators[i], self._next[i] = worker_generator(seed, self._workers[i]), None
        picker = self._pickers[i]
        if picker is not None:
            picker.restart(seed)
