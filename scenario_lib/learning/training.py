"""Train a policy on a library: check, start or resume, and leave a directory that `evaluate` can use."""

from dataclasses import dataclass
from pathlib import Path

from scenario_lib._values import as_flag, as_path, as_system, as_text, built_as, convert_fields, instance_of, optional
from scenario_lib.errors import InvalidSettingError, TrainingError
from scenario_lib.learning.environments import TrainingEnvironments, require_extra, training_library
from scenario_lib.learning.evaluation import other_data
from scenario_lib.learning.policy import MODEL, require_unchanged
from scenario_lib.learning.run_folder import (
    RunFolder,
    ShowProgress,
    TrainingCheckpoint,
    TrainingResult,
    require_same_run,
)
from scenario_lib.learning.settings import TrainingSettings
from scenario_lib.library.library import ScenarioLibrary, library_path
from scenario_lib.library.place import require_apart
from scenario_lib.library.recipe import require_one_feeder


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A run to be started.

    Attributes:
        library: Path of the library.
        out: Directory of the run.
        specs_dir: Spec cache that the library was built on; None means the shipped one.
        system: Experiment's TOML file, for a library on a feeder of the user's own.
        resume: Go on from the last checkpoint, if there is one.
        device: PyTorch device of actor and critic.
    """

    library: Path
    out: Path
    settings: TrainingSettings = TrainingSettings()
    specs_dir: Path | None = None
    system: str | None = None
    resume: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        convert_fields(self, library=library_path, out=as_path, specs_dir=optional(as_path), system=optional(as_system))
        convert_fields(self, settings=built_as(TrainingSettings), resume=as_flag, device=as_text)


def _require_device(name: str) -> None:
    """Refuse a device that is not there, before anything is written."""
    import torch

    try:
        torch.empty(0, device="cpu" if name == "auto" else name)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InvalidSettingError(f"device is {name!r}, which PyTorch cannot use here ({reason}); try cpu") from None


def train(run: TrainingRun, show: ShowProgress | None = None) -> TrainingResult:
    """Train with PPO.

    Raises:
        MissingExtraError: Stable-Baselines3 is not installed.
        TrainingError: The directory is not free, or holds another run than the one to be resumed; or the library was
            built on other data.
        LibraryError, InvalidSettingError, UnknownNameError: Library or settings cannot be used.
    """
    instance_of(TrainingRun)("run", run)
    require_extra()
    require_apart(run.out.resolve(), [run.library])
    _require_device(run.device)
    # Only here: it loads PyTorch, which takes seconds.
    from scenario_lib.learning.ppo import PPORun, run_ppo

    library = ScenarioLibrary(run.library)
    require_one_feeder(library.recipes.values(), library.path)
    wrong_data = other_data(library, run.specs_dir, run.system)
    if wrong_data:
        raise TrainingError(f"{library.path}: {wrong_data}")
    trained_on = training_library(library)
    world = TrainingEnvironments(library.path, run.specs_dir, run.system, run.settings)
    folder = RunFolder(run.out)
    with folder.claimed():
        checkpoint = _checkpoint(run, folder, trained_on.digest)
        return run_ppo(PPORun(world, trained_on, folder, checkpoint, run.device), show or (lambda _: None))


def _checkpoint(run: TrainingRun, folder: RunFolder, library_digest: str) -> TrainingCheckpoint | None:
    checkpoint = folder.newest() if run.resume else None
    if checkpoint is None:
        folder.require_free(run.resume)
        return None
    require_same_run(checkpoint, run.settings, library_digest)
    require_unchanged(checkpoint.folder, checkpoint.card, MODEL)
    if checkpoint.card.steps >= run.settings.steps:
        raise TrainingError(
            f"{checkpoint.folder}: has {checkpoint.card.steps} steps already, {run.settings.steps} were asked for; "
            f"give more --steps to go on"
        )
    return checkpoint
