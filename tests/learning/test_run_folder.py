"""The directory of a run: checkpoints, what may be resumed, and what a kill leaves."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from policy_samples import UNSEEN, random_policy, settings_of

from scenario_lib.errors import IrregularFileError, TrainingError
from scenario_lib.learning.environments import TrainingEnvironments
from scenario_lib.learning.policy import PolicyParts, TrainedPolicy
from scenario_lib.learning.run_folder import RunFolder, require_same_run


@pytest.fixture
def parts(library_path: Path, specs_dir: Path) -> PolicyParts:
    return random_policy(TrainingEnvironments(library_path, specs_dir, None, settings_of()))


def at(parts: PolicyParts, steps: int) -> PolicyParts:
    return replace(parts, card=replace(parts.card, steps=steps))


def test_the_newest_whole_checkpoint_counts(parts: PolicyParts, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.newest() is None
    folder.require_free(resume=False)
    folder.save(at(parts, 900), [])
    folder.save(at(parts, 1000), [])
    (tmp_path / "run" / "checkpoints" / "step-000000002000").mkdir()
    checkpoint = folder.newest()
    assert checkpoint is not None
    assert (checkpoint.card.steps, checkpoint.folder.name) == (1000, "step-000000001000")
    assert TrainedPolicy.load(folder.path).card.steps == 1000
    assert TrainedPolicy.load(folder.path / "checkpoints" / "step-000000000900").card.steps == 900


def test_a_write_that_fails_leaves_the_checkpoint_before(parts: PolicyParts, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.save(at(parts, 900), [])

    def broken(_: Path) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.save(replace(at(parts, 1000), write_model=broken), [])
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["step-000000000900"]
    assert TrainedPolicy.load(folder.path).card.steps == 900


def test_a_directory_with_something_in_it_is_refused(parts: PolicyParts, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.save(parts, [])
    with pytest.raises(TrainingError, match="is not empty; go on with a run there by --resume"):
        folder.require_free(resume=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    with pytest.raises(TrainingError, match="is not empty"):
        RunFolder(tmp_path / "other").require_free(resume=True)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run").claimed(),
        pytest.raises(TrainingError, match="another run trains there"),
        RunFolder(tmp_path / "run").claimed(),
    ):
        pass


def test_resuming_another_run_names_the_difference(parts: PolicyParts, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.save(parts, [])
    checkpoint = folder.newest()
    assert checkpoint is not None
    require_same_run(checkpoint, replace(settings_of(), steps=77, checkpoint_steps=5), UNSEEN.digest)
    with pytest.raises(TrainingError, match=r"environment\.action: found 'coupled', expected 'delta'"):
        require_same_run(checkpoint, settings_of(action="coupled"), UNSEEN.digest)
    with pytest.raises(TrainingError, match=r"library: its digest is ffffffffffff\.\.\., was 000000000000"):
        require_same_run(checkpoint, settings_of(), "f" * 64)


def test_notes_beside_a_policy_move_along(parts: PolicyParts, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.save(at(parts, 900), [])
    (folder.policy / "notes.txt").write_text("mine")
    folder.save(at(parts, 1000), [])
    assert (folder.policy / "notes.txt").read_text() == "mine"
    assert TrainedPolicy.load(folder.policy).card.steps == 1000


@pytest.mark.parametrize("place", [".", "policy"])
def test_a_pipe_in_place_of_a_policy_is_refused_at_once(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(exist_ok=True)
    os.mkfifo(tmp_path / place / "policy.json")
    with pytest.raises(IrregularFileError, match="named pipe"):
        TrainedPolicy.load(tmp_path)
