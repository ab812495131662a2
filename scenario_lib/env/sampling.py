"""Which record an environment plays next: what `reset` asks for, or a drawn one, reproducible from one base seed.

Streams are keyed: worker i of base seed s draws from SeedSequence(s, spawn_key=(i,)), so that no worker of one base
seed shares a stream with a worker of another, as sums of seed and worker would.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from scenario_lib._values import refuse, require_known
from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.views import LibraryView

SINGLE_OPTIONS = ("scenario",)
_VECTOR_OPTIONS = ("scenario", "reset_mask")


def known_options(options: Mapping[str, Any] | None, known: Sequence[str]) -> Mapping[str, Any]:
    """The options of `reset`, which would be without effect under another name.

    Raises:
        InvalidSettingError: No mapping.
        UnknownNameError: There is no such option.
    """
    if options is not None and not isinstance(options, Mapping):
        raise refuse("options", options, f"a mapping with some of {', '.join(known)}")
    given = options or {}
    if "seed" in given:
        raise refuse("options['seed']", given["seed"], "none; a seed is an argument of its own, reset(seed=...)")
    require_known("options", given, known)
    return given


def whole_seed(field: str, value: Any) -> int | None:
    """A seed as Python's int; None is none.

    Raises:
        InvalidSettingError: No whole number of at least 0.
    """
    if value is None:
        return None
    try:
        seed = -1 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        seed = -1
    if seed < 0:
        raise refuse(field, value, "a seed, that is a whole number of at least 0")
    return seed


def _is_listed(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a value is several; text and an array of no dimension are one."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """Which environments begin an episode, and of which scenario.

    Attributes:
        mask: Shape (N,).
        scenarios: Seed of the record that each is to play, None for a drawn one.
    """

    mask: NDArray[np.bool_]
    scenarios: tuple[int | None, ...]

    @classmethod
    def of(cls, options: Mapping[str, Any] | None, n: int) -> "ResetPlan":
        """Read the options of `reset`.

        Raises:
            InvalidSettingError: A mask that is no array of N booleans with one True, another number of scenarios, or
                one that is no whole number.
            UnknownNameError: There is no such option.
        """
        options = known_options(options, _VECTOR_OPTIONS)
        return cls(_mask(options.get("reset_mask"), n), _scenarios(options.get("scenario"), n))


def _mask(wanted: Any, n: int) -> NDArray[np.bool_]:
    if wanted is None:
        return np.ones(n, bool)
    if not isinstance(wanted, np.ndarray) or wanted.dtype != np.bool_ or wanted.shape != (n,) or not wanted.any():
        raise InvalidSettingError(
            f"options['reset_mask'] is {wanted!r}; expected a numpy array of {n} booleans, at least one of them True"
        )
    return wanted.copy()


def _scenarios(wanted: Any, n: int) -> tuple[int | None, ...]:
    if not _is_listed(wanted):
        return (whole_seed("options['scenario']", wanted),) * n
    if len(wanted) != n:
        raise InvalidSettingError(
            f"options['scenario'] is {wanted!r}; expected a seed, or one (or None) for each of {n}"
        )
    return tuple(whole_seed(f"options['scenario'][{i}]", seed) for i, seed in enumerate(wanted))


Library = ScenarioLibrary | LibraryView
COVERAGES = ("random", "disjoint")
_EPOCH_KEY = 0x65706F6368  # apart from every worker's key


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """Position of an environment among those that train together."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.index < self.count:
            raise refuse("worker", (self.index, self.count), "(i, k) with 0 <= i < k")


def worker_generator(seed: int, worker: WorkerShare) -> np.random.Generator:
    """The generator of one worker under a base seed."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(worker.index,))))


class ScenarioSampler:
    """Draws records at random, or goes through the library so that all workers see each once before any twice.

    Args:
        library: What is played.
        worker: Position among the workers; needed for disjoint coverage.
        coverage: "random" or "disjoint". Disjoint coverage holds for workers reset with one base seed.
    """

    def __init__(self, library: Library, worker: WorkerShare | None, coverage: str) -> None:
        if coverage not in COVERAGES:
            raise refuse("coverage", coverage, f"one of {', '.join(COVERAGES)}")
        self._library = library
        self._worker = worker or WorkerShare(0, 1)
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


def named_record(library: Library | None, scenario: int | None) -> ScenarioRecord | None:
    """The record of a seed that `reset` asks for; None if it asks for none.

    Raises:
        InvalidSettingError: One is asked for without a library.
        UnknownNameError: The library has none of that seed.
    """
    if scenario is None:
        return None
    if library is None:
        raise InvalidSettingError(f"options['scenario'] is {scenario!r}; expected none, without a library")
    return library.record_for(scenario)


class ScenarioSamplers:
    """One sampler and one generator per environment.

    Args:
        library: What is played; None for the experiment as it stands.
        worker: (i, k) makes the N environments numbers i N to i N + N - 1 of k N; None is (0, 1).
        coverage: See `ScenarioSampler`.
        n: Number of environments.
    """

    def __init__(self, library: Library | None, worker: tuple[int, int] | None, coverage: str, n: int) -> None:
        outer = WorkerShare(*(worker or (0, 1)))
        self._workers = [WorkerShare(outer.index * n + i, outer.count * n) for i in range(n)]
        self._samplers = [None if library is None else ScenarioSampler(library, one, coverage) for one in self._workers]
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
        if _is_listed(seed):
            seeds = [whole_seed(f"seed[{i}]", one) for i, one in enumerate(seed)]
        else:
            seeds = [whole_seed("seed", seed)] * n
        if len(seeds) != n:
            raise InvalidSettingError(f"seed has {len(seeds)} values; expected one, or {n}")
        for i, chosen in enumerate(seeds):
            if mask[i] and chosen is not None:
                self._restart(i, chosen)

    def pick(self, i: int) -> ScenarioRecord | None:
        """The next record of an environment; None without a library."""
        sampler = self._samplers[i]
        if sampler is None:
            return None
        known, self._next[i] = self._next[i], None
        return sampler.pick(self._generators[i]) if known is None else known

    @property
    def peeked(self) -> list[ScenarioRecord | None]:
        """By environment, the record that was drawn ahead, if one was."""
        return self._next

    def peek(self, i: int) -> ScenarioRecord | None:
        """The record that `pick` will draw next, unless `seed` comes first; None without a library."""
        sampler = self._samplers[i]
        if self._next[i] is None and sampler is not None:
            self._next[i] = sampler.pick(self._generators[i])
        return self._next[i]

    def _restart(self, i: int, seed: int) -> None:
        self._generators[i], self._next[i] = worker_generator(seed, self._workers[i]), None
        sampler = self._samplers[i]
        if sampler is not None:
            sampler.restart(seed)
