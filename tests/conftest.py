"""What tests of several folders share: the golden data's folder, and the village, a feeder that does not ship."""

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dask_cluster import dask_cluster

from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.engines import Engine

DATA = Path(__file__).parent / "data"

# A shell starts what it runs in the background with SIGINT ignored, and so would be the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def specs_dir() -> Path:
    """The small synthetic spec cache that the golden rollouts were computed with."""
    return DATA / "specs"


@pytest.fixture(scope="session")
def village_file() -> Path:
    """The experiment file of the village feeder: what a user with a feeder of their own would write."""
    return DATA / "village" / "experiment.toml"


@pytest.fixture(scope="session")
def village(village_file: Path) -> Experiment:
    return load_experiment(village_file)


@pytest.fixture
def edited_village(village_file: Path, tmp_path: Path) -> Callable[[str, str], Path]:
    """Copy the village and replace a text in its experiment file or its circuit; gives the copy's experiment file.

    A second call edits the same copy further.
    """
    folder = tmp_path / "village"
    shutil.copytree(village_file.parent, folder)

    def edit(old: str, new: str) -> Path:
        holders = [path for path in sorted(folder.iterdir()) if old in path.read_text(encoding="utf-8")]
        assert len(holders) == 1, f"{old!r} is in {holders}"
        holders[0].write_text(holders[0].read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
        return folder / village_file.name

    return edit


@pytest.fixture(autouse=True)
def _working_directory_kept() -> Iterator[None]:
    """No test may move the process; OpenDSS would."""
    before = Path.cwd()
    yield
    assert Path.cwd() == before


@pytest.fixture(scope="session")
def built_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real library: ieee13 on the reference engine with one worker, seeds 7 and 2007 accepted, 1007 and 3007 not.

    Copy it to change it.
    """
    plan = MeasurePlan(
        load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria(), engine=Engine("reference")
    )
    out = tmp_path_factory.mktemp("built") / "library"
    return build_library(plan, CandidateRequest(seeds=(7, 1007, 2007, 3007)), BuildOptions(out)).path


@pytest.fixture(scope="session")
def compiled_library(tmp_path_factory: pytest.TempPathFactory) -> ScenarioLibrary:
    """The same on the compiled engine, opened."""
    plan = MeasurePlan(load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria())
    out = tmp_path_factory.mktemp("compiled") / "library"
    return ScenarioLibrary(build_library(plan, CandidateRequest(seeds=(7, 1007, 2007, 3007)), BuildOptions(out)).path)


@pytest.fixture(scope="session")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the scheduler of a Dask cluster with two worker processes, started with the first test that asks."""
    pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with dask_cluster(tmp_path_factory.mktemp("dask")) as address:
        yield address
