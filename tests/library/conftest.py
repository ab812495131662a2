"""A small library written by us, and the one that openg2g's example wrote."""

import shutil
from pathlib import Path

import pytest
from library_samples import write_sample

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.recipe import DataDigests, Recipe
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.scenario.settings import RandomizationSettings

SAMPLE_SEEDS = [7, 1007, 2007]


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    """The shipped ieee13 with default settings."""
    trace = training_trace_recipe()
    data = DataDigests("circuit digest", "models digest", trace.digest, trace.params)
    return Recipe(load_experiment("ieee13"), RandomizationSettings(), data)


@pytest.fixture(scope="session")
def _sample(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("sample") / "library", [(recipe, SAMPLE_SEEDS)])


@pytest.fixture
def library_path(_sample: Path, tmp_path: Path) -> Path:
    """A library of ours with three records, to be damaged at will."""
    return Path(shutil.copytree(_sample, tmp_path / "library"))


@pytest.fixture
def openg2g_path(tmp_path: Path) -> Path:
    """A copy of the library by openg2g's example, to be damaged at will."""
    source = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"
    return Path(shutil.copytree(source, tmp_path / "openg2g"))
