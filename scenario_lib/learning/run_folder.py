"""The directory of a training run: its checkpoints, its episodes, and the policy as it is so far."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scenario_lib.errors import TrainingError
from scenario_lib.feeders.canonical import first_difference
from scenario_lib.learning.episodes import EpisodeRow, read_episodes, write_episodes
from scenario_lib.learning.policy_files import (
    CARD,
    NEWEST,
    PolicyCard,
    PolicyParts,
    read_card,
    whole_directory,
    write_policy,
)
from scenario_lib.learning.settings import TrainingSettings
from scenario_lib.library.file_lock import exclusive

EPISODES = "episodes.parquet"
TENSORBOARD = "tensorboard"
_MAY_CHANGE = ("steps", "checkpoint_steps")


@dataclass(frozen=True, slots=True)
class Checkpoint:
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

    def newest(self) -> Checkpoint | None:
        """The last whole checkpoint; None if there is none.

        Raises:
            PolicyError, TrainingError: It is damaged.
        """
        folders = sorted(path for path in self._checkpoints.glob("step-*") if (path / CARD).is_file())
        if not folders:
            return None
        card = read_card(folders[-1])
        return Checkpoint(folders[-1], card, read_episodes(self.path / EPISODES, card.steps))

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


def require_same_run(checkpoint: Checkpoint, settings: TrainingSettings, library_digest: str) -> None:
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
