"""The library and the policies that tests of learning share."""

from pathlib import Path

import pytest
from policy_samples import UNSEEN, WritePolicy, random_policy, settings_of

from scenario_lib.learning.environments import TrainingEnvironments
from scenario_lib.learning.policy import TrainingLibrary, whole_directory, write_policy

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def library_path() -> Path:
    """Three records on ieee13."""
    return DATA / "openg2g_library_ieee13"


@pytest.fixture
def policy_on_disk(tmp_path: Path, library_path: Path, specs_dir: Path) -> WritePolicy:
    """Write a random policy for ieee13 into a directory of a given name."""

    def write(name: str = "random", trained_on: TrainingLibrary = UNSEEN, seed: int = 0, **environment: object) -> Path:
        world = TrainingEnvironments(library_path, specs_dir, None, settings_of(**environment))
        with whole_directory(tmp_path / name) as fresh:
            write_policy(fresh, random_policy(world, trained_on, seed))
        return tmp_path / name

    return write
