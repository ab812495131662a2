"""A library is replaced while readers sample: they get the old one, the new one, or one line; never a mixture."""

import json
import os
import pickle
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from library_samples import sample_traces, write_sample

from scenario_lib.errors import LibraryError
from scenario_lib.library import metadata as contents
from scenario_lib.library.convert import convert_library
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.place import publish
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings, Range

READS = 60


@pytest.fixture(scope="module")
def two(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two libraries whose records have the same seeds and other scenarios and traces."""
    folder = tmp_path_factory.mktemp("two")
    other = Recipe(recipe.experiment, RandomizationSettings(pv_scale=Range(0.1, 0.4)), recipe.data)
    return write_sample(folder / "a", [(recipe, [7, 1007])]), write_sample(folder / "b", [(other, [1007, 7])])


def read_once(path: Path) -> str:
    """Open, draw a record, materialise it, read its traces and its numbers: everything of one library."""
    library = ScenarioLibrary(path)
    record = library.sample()
    scenario = library.materialize(record)
    baseline, ofo = sample_traces(record.seed)
    assert np.array_equal(record.baseline_voltage_pen_per_step, baseline)
    assert np.array_equal(record.ofo_voltage_pen_per_step, ofo)
    assert library.materialize(record, from_numbers=True) == scenario
    assert scenario.params.pv_scale == record.pv_scale
    assert len(library.candidates) == 3
    return "new" if record.pv_scale < 0.4 else "old"


def publishing(two: tuple[Path, Path], target: Path, done: threading.Event) -> None:
    """Exchange the library over and over; copies are made beside it, as builds do."""
    for turn in range(10_000):
        if done.is_set():
            return
        finished = target.with_name(f".finished-{turn}")
        shutil.copytree(two[turn % 2], finished)
        publish(finished, target)


@pytest.fixture
def exchanged(two: tuple[Path, Path], tmp_path: Path) -> Iterator[Path]:
    target = tmp_path / "library"
    shutil.copytree(two[0], target)
    done = threading.Event()
    writer = threading.Thread(target=publishing, args=(two, target, done))
    writer.start()
    yield target
    done.set()
    writer.join()


def test_a_reader_never_sees_a_mixture(exchanged: Path) -> None:
    seen: Counter[str] = Counter()
    for _ in range(READS):
        try:
            seen[read_once(exchanged)] += 1
        except LibraryError as error:
            assert "\n" not in str(error)
            assert str(exchanged) in str(error)
            seen["refused"] += 1
    print(dict(seen))
    assert seen["old"] + seen["new"] > 0, "some reads finish between two exchanges"
    assert seen.total() == READS


def test_a_library_that_is_replaced_between_its_two_files_is_read_again(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, swapped = tmp_path / "library", []
    shutil.copytree(two[0], target)
    honest = contents._read_digests

    def swapping(path: Path) -> dict[str, str]:
        if not swapped:
            swapped.append(shutil.copytree(two[1], tmp_path / "finished"))
            publish(tmp_path / "finished", target)
        return honest(path)

    monkeypatch.setattr(contents, "_read_digests", swapping)
    library = ScenarioLibrary(target)
    assert [record.seed for record in library] == [1007, 7]
    assert library.materialize(library[0]).params.pv_scale < 0.4


def test_a_library_that_never_rests_is_one_line(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(100))
    monkeypatch.setattr(contents, "file_identity", lambda path: (next(count),))
    with pytest.raises(LibraryError, match=r"/a: is replaced faster than it can be read"):
        ScenarioLibrary(two[0])


def test_tables_of_an_open_library_are_the_old_ones_or_one_line(two: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "library"
    shutil.copytree(two[0], target)
    read, unread = ScenarioLibrary(target), ScenarioLibrary(target)
    before = read.materialize(read[0], from_numbers=True), read[0].ofo_voltage_pen_per_step
    publish(Path(shutil.copytree(two[1], tmp_path / "finished")), target)
    assert read.materialize(read[0], from_numbers=True) == before[0]
    assert np.array_equal(read[0].ofo_voltage_pen_per_step, before[1])
    for use in (
        lambda: unread.candidates,
        lambda: unread.materialize(unread[0], from_numbers=True),
        lambda: unread[0].ofo_voltage_pen_per_step,
    ):
        with pytest.raises(LibraryError, match="the library was replaced while open; open it again"):
            use()
    assert unread.materialize(unread[0]).seed == 7


def test_without_digests_a_replaced_trace_file_is_noticed_too(openg2g_path: Path, tmp_path: Path) -> None:
    opened, again = ScenarioLibrary(openg2g_path), ScenarioLibrary(openg2g_path)
    trace = opened[0].ofo_voltage_pen_per_step
    other = Path(shutil.copytree(openg2g_path, tmp_path / "other"))
    os.utime(other / "traces.npz", ns=(1, 1))
    publish(other, openg2g_path)
    assert np.array_equal(opened[0].ofo_voltage_pen_per_step, trace), "an open file stays what it was"
    with pytest.raises(LibraryError, match="the library was replaced while open; open it again"):
        _ = again[0].ofo_voltage_pen_per_step
    assert ScenarioLibrary(openg2g_path)[0].ofo_voltage_pen_per_step.shape == (3600,)


READERS: dict[str, Callable[[ScenarioLibrary], object]] = {
    "traces": lambda library: library[1].ofo_voltage_pen_per_step,
    "numbers": lambda library: library.materialize(library[1], from_numbers=True),
    "candidates": lambda library: library.candidates,
    "traces in a worker": lambda library: pickle.loads(pickle.dumps(library))[1].ofo_voltage_pen_per_step,
    "numbers in a worker": lambda library: pickle.loads(pickle.dumps(library)).stored_numbers(1),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("other", ["contract", "sharded", "smaller", "smaller sharded"])
@pytest.mark.parametrize("store", ["contract", "sharded"])
def test_a_replaced_library_is_called_replaced_by_every_reader(
    two: tuple[Path, Path], recipe: Recipe, tmp_path: Path, store: str, other: str, reader: str
) -> None:
    """Whatever takes its place: what one file lacks then is no damage."""
    target, finished = tmp_path / "library", tmp_path / "finished"
    small = write_sample(tmp_path / "small", [(recipe, [2007])])
    for source, how, folder in ((two[0], store, target), (small if "small" in other else two[1], other, finished)):
        if "sharded" in how:
            convert_library(source, "sharded", folder)
        else:
            shutil.copytree(source, folder)
    library = ScenarioLibrary(target)
    publish(finished, target)
    with pytest.raises(LibraryError) as caught:
        READERS[reader](library)
    assert str(caught.value) == f"{target}: the library was replaced while open; open it again"


def test_a_copied_and_a_moved_library_are_the_same_library(two: tuple[Path, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(two[0], tmp_path / "copy"))
    assert read_once(copy) == "old"
    moved = copy.rename(tmp_path / "moved")
    assert read_once(moved) == "old"
    assert json.loads((moved / "metadata.json").read_text()) == json.loads((two[0] / "metadata.json").read_text())


def test_a_library_in_a_directory_that_may_not_be_written(two: tuple[Path, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(two[0], tmp_path / "library"))
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert read_once(folder) == "old"
        assert not list(folder.glob(".*"))
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("store", ["contract", "sharded"])
@pytest.mark.parametrize("what", ["traces", "numbers", "candidates"])
def test_a_library_that_was_moved_is_called_absent(library_path: Path, tmp_path: Path, store: str, what: str) -> None:
    if store == "sharded":
        convert_library(library_path, "sharded", tmp_path / "sharded")
    library = ScenarioLibrary(library_path if store == "contract" else tmp_path / "sharded")
    library.path.rename(tmp_path / "elsewhere")
    with pytest.raises(LibraryError, match="no such directory; the library was moved or removed") as caught:
        {
            "traces": lambda: library[0].ofo_voltage_pen_per_step,
            "numbers": lambda: library.materialize(library[0]) and library._resolved.numbers(library[0]),
            "candidates": lambda: library.candidates,
        }[what]()
    assert "damaged" not in str(caught.value)
