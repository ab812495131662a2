"""What a build is asked for: which candidates, how many accepted, where to, and with how many workers.

Seeds are in rising order: a range by arithmetic however long it is, or an explicit list.
"""

from bisect import bisect_left
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from scenario_lib._values import (
    LARGEST_SEED,
    NO_LIMIT,
    STRICT,
    as_flag,
    as_path,
    as_whole_number,
    built_as,
    convert_fields,
    count,
    instance_of,
    optional,
    positive,
    refuse,
    require_bounds,
    require_count,
    require_distinct,
    tuple_of,
)
from scenario_lib.errors import InvalidSettingError
from scenario_lib.execution.options import Cluster, RunOptions
from scenario_lib.screening.criteria import KINDS

Seeds = range | tuple[int, ...]
"""Rising, each once."""

_STEP, _FIRST = 1000, 7


def numbered(start: int, count: int) -> range:
    """Seeds of `count` candidates in openg2g's numbering: candidate i has seed i * 1000 + 7."""
    return range(start * _STEP + _FIRST, (start + count) * _STEP + _FIRST, _STEP)


def holds(seeds: Seeds, seed: int) -> bool:
    """Whether a seed is one of them."""
    if isinstance(seeds, range):
        return seed in seeds
    place = bisect_left(seeds, seed)
    return place < len(seeds) and seeds[place] == seed


def shared(one: Seeds, other: Seeds) -> Seeds:
    """The seeds that both have; of two ranges, which all have one step and residue, without counting them out."""
    if isinstance(one, range) and isinstance(other, range):
        return range(max(one.start, other.start), min(one.stop, other.stop), _STEP)
    listed, wide = (other, one) if isinstance(one, range) else (one, other)
    return tuple(seed for seed in listed if holds(wide, seed))


SEED_WAYS = ("candidates", "accept", "quota", "seeds")
"""Ways of saying which candidates are tried."""

_BOUNDS = {"candidates": count(1), "accept": count(1), "max_candidates": count(1), "seed_start": count(0, LARGEST_SEED)}
_OPTION_BOUNDS = {"jobs": count(1, 10_000), "timeout_s": positive()}

_LIKELY_TRIES = 2
"""Candidates for one accepted, by which the disk is estimated: 1.8 on ieee13, 1.6 on ieee34, 5.7 on ieee123."""

_DEFAULT_BRAKE = 100
"""Without a brake of its own, a build that should accept N tries at most this many times N candidates."""


@dataclass(frozen=True, slots=True)
class Quota:
    """How many records of each kind of violation are wanted; kinds with 0 are not accepted at all."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    under: int = 0
    over: int = 0
    mixed: int = 0

    def __post_init__(self) -> None:
        convert_fields(self, under=as_whole_number, over=as_whole_number, mixed=as_whole_number)
        for kind, wanted in self.to_dict().items():
            require_count(f"quota {kind}", wanted, 0, NO_LIMIT)
        if self.total == 0:
            raise refuse("quota", self.to_dict(), "at least one record of one kind")

    @property
    def total(self) -> int:
        """Records of all kinds together."""
        return sum(self.to_dict().values())

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of which at least one record is wanted."""
        return tuple(kind for kind, wanted in self.to_dict().items() if wanted)

    def to_dict(self) -> dict[str, int]:
        """The numbers by kind."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Goal:
    """When a build has enough: so many records, or so many of each kind; with neither it tries every candidate."""

    accept: int | None = None
    quota: Quota | None = None

    @property
    def total(self) -> int | None:
        """Records of all kinds together; None without an end."""
        return self.accept if self.quota is None else self.quota.total

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of which records are wanted."""
        return KINDS if self.quota is None else self.quota.kinds


EVERYTHING = Goal()
"""Try every candidate."""


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """Which seeds are tried, and when to stop.

    Attributes:
        candidates: Try this many seeds.
        accept: Or: go on in seed order until this many are accepted.
        quota: Or: until so many of each kind are; a mapping such as {"under": 20} becomes one.
        max_candidates: The brake on `accept` and `quota`.
        seed_start: Candidate i has seed (seed_start + i) * 1000 + 7, openg2g's numbering.
        seeds: Or: exactly these seeds, in any list; they are tried in rising order.
    """

    candidates: int | None = None
    accept: int | None = None
    max_candidates: int | None = None
    seed_start: int = 0
    seeds: tuple[int, ...] | None = None
    quota: Quota | None = None

    def __post_init__(self) -> None:
        whole = optional(as_whole_number)
        convert_fields(self, candidates=whole, accept=whole, max_candidates=whole, seed_start=as_whole_number)
        convert_fields(self, seeds=optional(tuple_of(as_whole_number)), quota=optional(built_as(Quota)))
        require_bounds(self, _BOUNDS)
        ways = [name for name in SEED_WAYS if getattr(self, name) is not None]
        if not ways or (len(ways) > 1 and ways not in (["accept", "seeds"], ["quota", "seeds"])):
            raise InvalidSettingError(
                f"{', '.join(SEED_WAYS)}: found {' and '.join(ways) or 'none'}; expected a number of candidates, or a "
                f"number or quota to accept, or a list of seeds (which may go with a number or quota to accept)"
            )
        if self.max_candidates is not None and self.goal.total is None:
            raise refuse("max_candidates", self.max_candidates, "to be given together with accept or quota")
        if self.seeds is not None:
            require_distinct("seeds", self.seeds)
            for seed in self.seeds:
                require_count("seeds", seed, 0)
            if not self.seeds:
                raise refuse("seeds", self.seeds, "at least one seed")
        elif numbered(self.seed_start + self.most_candidates - 1, 1)[0] > LARGEST_SEED:
            raise refuse(
                "seed_start",
                self.seed_start,
                f"a number whose seeds, with those of {self.most_candidates} candidates, are at most {LARGEST_SEED}",
            )

    @property
    def goal(self) -> Goal:
        """When to stop."""
        return Goal(self.accept, self.quota)

    @property
    def most_candidates(self) -> int:
        """The largest number of candidates that the build may try."""
        if self.seeds is not None:
            return min(len(self.seeds), self.max_candidates or len(self.seeds))
        if self.goal.total is not None:
            return self.max_candidates or _DEFAULT_BRAKE * self.goal.total
        return self.candidates or 0

    @property
    def likely_candidates(self) -> int:
        """How many candidates it will probably try, as half of them are accepted; the brake is far beyond."""
        likely = self.most_candidates if self.goal.total is None else _LIKELY_TRIES * self.goal.total
        return min(likely, self.most_candidates)

    @property
    def likely_records(self) -> int:
        """How many of them it will probably accept."""
        return -(-self.likely_candidates // _LIKELY_TRIES)

    def seed_order(self) -> Seeds:
        """The seeds, rising; those that are numbered are a range, however many they are."""
        if self.seeds is not None:
            return tuple(sorted(self.seeds)[: self.most_candidates])
        return numbered(self.seed_start, self.most_candidates)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Where a build writes and how it runs; nothing here may change what comes out.

    Attributes:
        out: The library's directory.
        jobs: Worker processes.
        timeout_s: Longest time for one candidate (s); None means no limit.
        resume: Continue an unfinished build, if there is one.
        overwrite: Replace an existing library, or discard an unfinished build.
        cluster: Measure candidates there; None means in worker processes of this machine.
    """

    out: Path
    jobs: int = 1
    timeout_s: float | None = None
    resume: bool = False
    overwrite: bool = False
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        convert_fields(self, out=as_path, jobs=as_whole_number, resume=as_flag, overwrite=as_flag)
        convert_fields(self, cluster=optional(instance_of(Cluster)))
        require_bounds(self, _OPTION_BOUNDS)

    def run(self, most_jobs: int) -> RunOptions:
        """How candidates are measured, with no more workers than there are candidates."""
        return RunOptions(jobs=min(self.jobs, most_jobs), timeout_s=self.timeout_s, cluster=self.cluster)
