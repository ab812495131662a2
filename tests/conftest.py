"""What tests of several folders share: golden data, the village (a feeder that does not ship), libraries, a cluster.

Everything that the tests and the processes that they start put among temporary files lies in one folder, which is
removed in the end, and is kept if a test failed. What is left there although its process ended of itself is an error.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dask_cluster import dask_cluster
from filelock import FileLock

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

_WORKER = "PYTEST_XDIST_WORKER"
_TEMPORARY = pytest.StashKey[Path]()
_MAY_STAY = (
    "pytest-of-",  # pytest's own, with the `tmp_path` of every test
    "scenario-lib-bundles-",  # of a cluster's workers that tests kill
    "scenario-lib-circuit-",  # of circuits whose trial tests kill
    f"scenario-lib-{os.getuid()}",  # machine code, where nothing else can be written
    "torchinductor_",  # PyTorch makes it when it is imported
    "dask-scratch-space",  # of Dask's workers that are killed
    "ray",  # the logs of its sessions, which Ray keeps
)
_SLOW = set((Path(__file__).parent / "slow_tests.txt").read_text(encoding="utf-8").splitlines())
_SLOW_FIXTURES = {"built_library", "compiled_library", "dask_address"}


def pytest_configure(config: pytest.Config) -> None:
    """A folder for temporary files, which processes started from here inherit, those of pytest-xdist included."""
    if _WORKER not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="scenario-lib-tests-"))
        os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
        config.stash[_TEMPORARY] = folder


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Nothing may be left behind but what a process that was killed could not remove."""
    folder = session.config.stash.get(_TEMPORARY, None)
    if folder is None or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return
    left = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(_MAY_STAY))
    if left:
        print(f"\nleft behind in {folder}: {', '.join(left)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    else:
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by its name or its fixtures; the longest come first, so that no process ends alone."""
    for item in items:
        file = item.path.relative_to(item.config.rootpath).as_posix()
        named = {f"{file}::*", f"{file}::{getattr(item, 'originalname', item.name)}"} & _SLOW
        if named or _SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: "test_documentation.py" not in item.nodeid)


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


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that is made by the first of pytest-xdist's processes that asks for it, and serves all of them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if _WORKER in os.environ else base) / name / "library"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            make(folder)
    return folder


def _build(engine: Engine) -> Callable[[Path], object]:
    plan = MeasurePlan(load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria(), engine=engine)
    return lambda out: build_library(plan, CandidateRequest(seeds=(7, 1007, 2007, 3007)), BuildOptions(out))


@pytest.fixture(scope="session")
def built_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real library: ieee13 on the reference engine with one worker, seeds 7 and 2007 accepted, 1007 and 3007 not.

    Copy it to change it.
    """
    return made_once(tmp_path_factory, "built", _build(Engine("reference")))


@pytest.fixture(scope="session")
def compiled_library(tmp_path_factory: pytest.TempPathFactory) -> ScenarioLibrary:
    """The same on the compiled engine, opened."""
    return ScenarioLibrary(made_once(tmp_path_factory, "compiled", _build(Engine())))


@pytest.fixture(scope="session")
def dask_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the scheduler of a Dask cluster with two worker processes, started with the first test that asks."""
    pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with dask_cluster(tmp_path_factory.mktemp("dask")) as address:
        yield address
