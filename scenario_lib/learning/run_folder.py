"""One row per finished episode of a training run, as Parquet.

The directory of a training run: its checkpoints, its episodes, and the policy as it is so far.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenario_lib._files import exclusive, first_difference, open_regular, replacing
from scenario_lib.errors import TrainingError
from scenario_lib.learning.policy import CARD, NEWEST, PolicyCard, PolicyParts, read_card, whole_directory, write_policy
from scenario_lib.learning.settings import TrainingSettings

_COMPONENTS = ("voltage", "throughput", "latency", "switch", "safe", "ofo_baseline")


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode.

    Attributes:
        total_steps: Environment steps of the run when it ended.
        scenario_seed: Of the record that was played.
        episode_return: Undiscounted sum of rewards, neither normalised nor scaled.
        voltage to ofo_baseline: Sums of the reward's components; `ofo_baseline` is already inside `voltage`.
        violation_penalty_pu2: Sum of the squared violations (pu^2); null where voltages had no weight.
        steps: Steps of the episode.
        diverged: It ended because the power flow did not converge.
        wall_s: How long it took (s), the other environments and updates between its steps included.
    """

    total_steps: int
    scenario_seed: int | None
    episode_return: float
    voltage: float
    throughput: float
    latency: float
    switch: float
    safe: float
    ofo_baseline: float
    violation_penalty_pu2: float | None
    steps: int
    diverged: bool
    wall_s: float


SCHEMA = pa.schema(
    [
        ("total_steps", pa.int64()),
        ("scenario_seed", pa.int64()),
        ("episode_return", pa.float64()),
        *((name, pa.float64()) for name in _COMPONENTS),
        ("violation_penalty_pu2", pa.float64()),
        ("steps", pa.int64()),
        ("diverged", pa.bool_()),
        ("wall_s", pa.float64()),
    ]
)


class EpisodeTally:
    """Adds up the running episode of one environment, step by step.

    Args:
        w_voltage: Weight of the squared violation in the reward.
    """

    def __init__(self, w_voltage: float) -> None:
        self._w_voltage = w_voltage
        self._clear()

    def _clear(self) -> None:
        self._steps = 0
        self._return = 0.0
        self._sums = dict.fromkeys(_COMPONENTS, 0.0)
        self._started_s: float | None = None

    def add(self, reward: float, components: Mapping[str, float], time_s: float) -> None:
        """One step.

        Args:
            components: As in `info["reward_components"]`; empty where the power flow diverged.
            time_s: Reading of a monotonic clock (s).
        """
        if self._started_s is None:
            self._started_s = time_s
        self._steps += 1
        self._return += reward
        for name, value in components.items():
            self._sums[name] += value

    def finish(self, info: Mapping[str, Any], total_steps: int, time_s: float) -> EpisodeRow:
        """The row of the episode that ended with this step; the next one begins."""
        missed = self._sums["ofo_baseline"] - self._sums["voltage"]
        row = EpisodeRow(
            total_steps=total_steps,
            scenario_seed=info.get("scenario"),
            episode_return=self._return,
            **self._sums,
            violation_penalty_pu2=missed / self._w_voltage if self._w_voltage > 0 else None,
            steps=self._steps,
            diverged=bool(info.get("power_flow")),
            wall_s=time_s - (time_s if self._started_s is None else self._started_s),
        )
        self._clear()
        return row


def write_episodes(path: Path, rows: Sequence[EpisodeRow]) -> None:
    """Write all episodes so far, replacing the file."""
    with replacing(path) as stream:
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], SCHEMA), stream)


def read_episodes(path: Path, until_steps: int) -> list[EpisodeRow]:
    """The episodes that ended within so many steps of the run.

    Raises:
        TrainingError: The file is not what `write_episodes` wrote.
    """
    try:
        with open_regular(path) as stream:
            table = pq.read_table(stream)
        if table.schema != SCHEMA:
            raise ValueError("its columns are not those of episodes")
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TrainingError(f"{path}: cannot be read ({error}); restore it, or train into another --out") from None
    return [EpisodeRow(**row) for row in table.to_pylist() if row["total_steps"] <= until_steps]


EPISODES = "episodes.parquet"
TENSORBOARD = "tensorboard"
_MAY_CHANGE = ("steps", "checkpoint_steps")


@dataclass(frozen=True, slots=True)
class TrainingCheckpoint:
    """Where a run stands: the policy's directory, its card, and the episodes so far."""

    folder: Path
    card: PolicyCard
    episodes: list[EpisodeRow]


class RunFolder:
    """`checkpoints/step-<steps>/`, `policy/` (the newest of them) and `episodes.parquet` in one directory."""

    def __init__(self, out: Path) -> None:
        self.path = out.absolute()
        self._checkpoints = self.path / "checkpoints"

    @property
    def policy(self) -> Path:
        """Directory of the newest policy."""
        return self.path / NEWEST

    def newest(self) -> TrainingCheckpoint | None:
        """The last whole checkpoint; None if there is none.

        Raises:
            PolicyError, TrainingError: It is damaged.
        """
        folders = sorted(path for path in self._checkpoints.glob("step-*") if (path / CARD).is_file())
        if not folders:
            return None
        card = read_card(folders[-1])
        return TrainingCheckpoint(folders[-1], card, read_episodes(self.path / EPISODES, card.steps))

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the only right to train into this directory; the system releases it if the process dies.

        Raises:
            TrainingError: Another run holds it, or it cannot be written.
        """
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(self.path.with_name(f".{self.path.name}.lock")))
            except BlockingIOError:
                raise TrainingError(f"{self.path}: another run trains there; wait, or choose another --out") from None
            except OSError as error:
                raise TrainingError(
                    f"{self.path}: cannot be written ({error.strerror}); choose another --out"
                ) from None
            yield

    def require_free(self, resume: bool) -> None:
        """Refuse a directory that has anything in it; with `resume`, the beginnings of a run may be there.

        Raises:
            TrainingError: Naming the options that go on.
        """
        allowed = {EPISODES, TENSORBOARD, self._checkpoints.name} if resume else set()
        if self.path.is_dir() and any(path.name not in allowed for path in self.path.iterdir()):
            raise TrainingError(
                f"{self.path}: is not empty; go on with a run there by --resume, or choose another --out"
            )

    def save(self, parts: PolicyParts, episodes: Sequence[EpisodeRow]) -> None:
        """Write a checkpoint. A kill at any time leaves the last whole one, with at least its own episodes."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_episodes(self.path / EPISODES, episodes)
        checkpoint = self._checkpoints / f"step-{parts.card.steps:012d}"
        with whole_directory(checkpoint) as fresh:
            write_policy(fresh, parts)
        with whole_directory(self.policy) as fresh:
            for file in checkpoint.iterdir():
                shutil.copyfile(file, fresh / file.name)


def require_same_run(checkpoint: TrainingCheckpoint, settings: TrainingSettings, library_digest: str) -> None:
    """Refuse to resume with other settings or another library; the number of steps may change.

    Raises:
        TrainingError: Naming the first difference.
    """
    now, then = settings.to_dict(), checkpoint.card.settings.to_dict()
    for name in _MAY_CHANGE:
        now[name] = then[name]
    difference = first_difference(now, then)
    if difference is None and library_digest != checkpoint.card.library.digest:
        difference = f"library: its digest is {library_digest[:12]}..., was {checkpoint.card.library.digest[:12]}..."
    if difference:
        raise TrainingError(
            f"{checkpoint.folder}: cannot be resumed, because the run would not be the same ({difference}); give the "
            f"settings that it was started with, or train into another --out"
        )


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of a run.

    Attributes:
        steps: Environment steps done, those before a resume included.
        mean_return: Of the last episodes; None before the first ended.
    """

    steps: int
    total: int
    episodes: int
    mean_return: float | None


ShowProgress = Callable[[TrainingProgress], None]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Outcome of a run.

    Attributes:
        policy: Directory of the policy.
        steps, episodes: In all, those before a resume included.
        steps_per_s: Of this run.
    """

    policy: Path
    steps: int
    episodes: int
    mean_return: float | None
    steps_per_s: float
