"""A library behaves the same in both stores; damage to the sharded one is found where it is met."""

import json
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from library_samples import edit_metadata, fix_digests, write_sample

from scenario_lib.analysis.info import library_info
from scenario_lib.errors import LibraryError, ReplayError, ScenarioLibError, UnknownNameError
from scenario_lib.library.arrow_store import RECORDS_SCHEMA, StoredRecords
from scenario_lib.library.convert import convert_library
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.views import LibraryView, RecordFilter
from scenario_lib.validation.replay import ReplayOptions
from scenario_lib.validation.validate import Grade, validate_library

SHARD = "shard-00000.arrow"


@pytest.fixture
def sharded_path(library_path: Path, tmp_path: Path) -> Path:
    return convert_library(library_path, "sharded", tmp_path / "sharded").target


@pytest.fixture(scope="module")
def stores(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> tuple[ScenarioLibrary, ScenarioLibrary]:
    """One library of 200 records in the two stores, in shards of 64."""
    folder = tmp_path_factory.mktemp("stores")
    contract = write_sample(folder / "contract", [(recipe, [1000 * i + 7 for i in range(200)])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenario_lib.library.convert.RECORDS_PER_SHARD", 64)
        sharded = convert_library(contract, "sharded", folder / "sharded").target
    return ScenarioLibrary(contract), ScenarioLibrary(sharded)


Stores = tuple[ScenarioLibrary, ScenarioLibrary]


def replace_file(path: Path, content: bytes) -> None:
    """A new file of that name; one that is mapped keeps its bytes."""
    path.unlink()
    path.write_bytes(content)


def test_records_are_equal(stores: Stores) -> None:
    contract, sharded = stores
    assert isinstance(sharded.scenarios, StoredRecords)
    assert len(sharded) == len(contract) == 200
    for a, b in zip(contract, sharded, strict=True):
        assert (a.contract(), a.digests, a.index, a.kind, repr(a)) == (
            b.contract(),
            b.digests,
            b.index,
            b.kind,
            repr(b),
        )
        assert list(map(type, a.contract().values())) == list(map(type, b.contract().values()))
    assert repr(sharded) == repr(contract).replace("contract", "sharded")
    assert sharded.config == contract.config
    assert sharded.recipes == contract.recipes
    assert sharded.candidates.equals(contract.candidates)


def test_samples_scenarios_and_traces_are_equal(stores: Stores) -> None:
    draws = []
    for library in stores:
        rng = np.random.default_rng(3)
        records = [library.sample(rng) for _ in range(40)]
        draws.append(
            [
                (
                    record.seed,
                    library.materialize(record).to_dict(),
                    record.baseline_voltage_pen_per_step.tobytes(),
                    record.ofo_voltage_pen_per_step.tobytes(),
                    library.stored_numbers(record),
                )
                for record in records
            ]
        )
        assert not records[0].ofo_voltage_pen_per_step.flags.writeable
    assert draws[0] == draws[1]


def test_records_are_found_by_position_slice_and_seed(stores: Stores) -> None:
    sharded = stores[1]
    assert [record.seed for record in sharded.scenarios[-3:]] == [197_007, 198_007, 199_007]
    assert sharded[-1].seed == sharded[199].seed == sharded[np.int64(199)].seed == 199_007
    assert sharded.record_for(100_007).index == 100
    with pytest.raises(IndexError):
        _ = sharded[200]
    for seed in (8, -7, 2**63, 10**30):
        texts = []
        for library in stores:
            with pytest.raises(UnknownNameError) as caught:
                library.record_for(seed)
            texts.append(str(caught.value).replace("sharded", "contract"))
        assert texts[0] == texts[1]


def test_a_seed_of_several_recipes_is_not_guessed(recipe: Recipe, tmp_path: Path) -> None:
    from dataclasses import replace

    other = replace(recipe, data=None)
    contract = write_sample(tmp_path / "contract", [(recipe, [7, 1007]), (other, [7])])
    sharded = ScenarioLibrary(convert_library(contract, "sharded", tmp_path / "sharded").target)
    assert sharded.record_for(1007).index == 1
    with pytest.raises(UnknownNameError, match=f"several recipes \\({recipe.id}, {other.id}\\)"):
        sharded.record_for(7)


def test_views_hold_positions_not_records(stores: Stores) -> None:
    seeds = [7, 50_007, 199_007]
    for library in stores:
        view = LibraryView(library, RecordFilter(seeds=seeds), weight=lambda record: record.seed)
        assert [record.seed for record in view] == [record.seed for record in view.scenarios[:]] == seeds
        assert view.sample(np.random.default_rng(0)).seed in seeds
    assert len(pickle.dumps(view)) < 20_000


def test_info_and_validate_see_the_same_library(stores: Stores) -> None:
    contract, sharded = (library_info(library.path).to_dict() for library in stores)
    assert {**contract, "path": ""} == {**sharded, "path": ""}
    report = validate_library(stores[1].path, ReplayOptions())
    assert (report.grade, report.records, report.findings) == (Grade.HELD, 200, ())


def test_pickles_carry_no_records(stores: Stores) -> None:
    sharded = stores[1]
    sharded.record_for(7)
    _ = sharded.candidates
    data = pickle.dumps(sharded)
    assert len(data) < 20_000
    copy = pickle.loads(data)
    assert copy.record_for(9_007).contract() == sharded.record_for(9_007).contract()
    record = pickle.loads(pickle.dumps(sharded[9]))
    np.testing.assert_array_equal(record.ofo_voltage_pen_per_step, sharded[9].ofo_voltage_pen_per_step)


def test_a_worker_reads_its_own_pages(stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "library.pickle").write_bytes(pickle.dumps(stores[1]))
    program = (
        "import pickle, sys\n"
        "library = pickle.load(open(sys.argv[1], 'rb'))\n"
        "record = library[150]\n"
        "print(record.seed, library.materialize(record).seed, len(record.baseline_voltage_pen_per_step))"
    )
    arguments = [sys.executable, "-c", program, tmp_path / "library.pickle"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["150007", "150007", "3600"]


def test_reading_loads_neither_a_simulator_nor_pandas(stores: Stores) -> None:
    program = (
        "import sys\n"
        "from scenario_lib import ScenarioLibrary\n"
        "library = ScenarioLibrary(sys.argv[1])\n"
        "record = library.record_for(library[77].seed)\n"
        "repr(library), record.ofo_voltage_pen_per_step, library.stored_numbers(record)\n"
        "print(sorted({'pandas', 'opendssdirect', 'numba', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, stores[1].path], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_pickle_of_a_library_that_was_replaced_is_refused(sharded_path: Path, recipe: Recipe, tmp_path: Path) -> None:
    data = pickle.dumps(ScenarioLibrary(sharded_path))
    other = write_sample(tmp_path / "other", [(recipe, [7, 1007, 3007])])
    convert_library(other, "sharded", sharded_path, overwrite=True)
    with pytest.raises(LibraryError, match="the library was replaced while open; open it again"):
        pickle.loads(data)[0]


def test_a_reader_of_a_replaced_library_gets_old_data_or_an_error(
    sharded_path: Path, recipe: Recipe, tmp_path: Path
) -> None:
    """Records stay those that were opened; what was mapped stays, and what was not is refused."""
    first, second = ScenarioLibrary(sharded_path), ScenarioLibrary(sharded_path)
    before = first[0].ofo_voltage_pen_per_step
    other = write_sample(tmp_path / "other", [(recipe, [8007, 9007, 10_007])])
    convert_library(other, "sharded", sharded_path, overwrite=True)
    assert [record.seed for record in first] == [record.seed for record in second] == [7, 1007, 2007]
    np.testing.assert_array_equal(first[0].ofo_voltage_pen_per_step, before)
    with pytest.raises(LibraryError, match="the library was replaced while open; open it again"):
        _ = second[0].ofo_voltage_pen_per_step
    with pytest.raises(LibraryError, match="the library was replaced while open; open it again"):
        second.stored_numbers(second[0])
    with pytest.raises(LibraryError, match="the library was replaced while open; open it again"):
        _ = second.candidates


def test_moved_and_copied_libraries_open(sharded_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(sharded_path, tmp_path / "copy"))
    shutil.rmtree(sharded_path)
    monkeypatch.chdir(tmp_path)
    library = ScenarioLibrary("copy")
    monkeypatch.chdir("/")
    assert library.materialize(library[2]).seed == 2007
    assert library[2].ofo_voltage_pen_per_step.shape == (3600,)
    assert library.path == copy


# --- Damage: found when opening, when reading, or by validate.


def validated(path: Path) -> Grade:
    try:
        return validate_library(path, ReplayOptions()).grade
    except ScenarioLibError as error:
        assert str(path) in str(error)
        return Grade.DIFFERS


def read_all(path: Path) -> list[object]:
    """Everything that a library gives, in one list of plain values."""
    library = ScenarioLibrary(path)
    seen: list[object] = []
    for record in library:
        traces = (record.baseline_voltage_pen_per_step.tobytes(), record.ofo_voltage_pen_per_step.tobytes())
        seen.append((record.contract(), record.digests, *traces, library.stored_numbers(record)))
        library.materialize(record)
    return seen


@pytest.mark.parametrize("name", ["metadata.json", "records.arrow", SHARD, "candidates.parquet", "digests.json"])
def test_flipped_bits_and_lost_ends_are_found(sharded_path: Path, name: str) -> None:
    """Nothing passes as good data in the loader, and `validate` finds everything."""
    path, expected = sharded_path / name, read_all(sharded_path)
    whole, rng = path.read_bytes(), random.Random(name)
    places = [*range(0, min(400, len(whole)), 29), *(rng.randrange(len(whole)) for _ in range(12))]
    damaged = [whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :] for place in places]
    damaged += [whole[:0], whole[:-1], whole[: len(whole) // 2], whole + b"\0"]
    for content in damaged:
        replace_file(path, content)
        # A flip in the digests of a digest's case or a space does not change what they say.
        if name != "digests.json" or json_or_none(content) != json.loads(whole):
            assert validated(sharded_path) is Grade.DIFFERS
        try:
            assert read_all(sharded_path) == expected
        except ScenarioLibError as error:
            assert str(sharded_path) in str(error)
            assert "\n" not in str(error)


def json_or_none(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_bytes_changed_with_their_digests_never_crash(sharded_path: Path) -> None:
    """Someone who corrects the digests can tell another story, but not break the reader: each run is a process."""
    program = (
        "import random, sys\n"
        "from pathlib import Path\n"
        "from library_samples import fix_digests\n"
        "from scenario_lib.errors import ScenarioLibError\n"
        "from scenario_lib.library.library import ScenarioLibrary\n"
        "library, rng, refused = Path(sys.argv[1]), random.Random(0), 0\n"
        "for name, last, step in (('records.arrow', 2000, 29), ('shard-00000.arrow', 2000, 29)):\n"
        "    path = library / name\n"
        "    whole = path.read_bytes()\n"
        "    for place in range(0, min(last, len(whole)), step):\n"
        "        path.unlink()\n"
        "        path.write_bytes(whole[:place] + bytes([whole[place] ^ rng.randrange(1, 256)]) + whole[place + 1:])\n"
        "        fix_digests(library)\n"
        "        try:\n"
        "            opened = ScenarioLibrary(library)\n"
        "            for record in opened:\n"
        "                opened.materialize(record), opened.stored_numbers(record)\n"
        "                record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step\n"
        "        except ScenarioLibError as error:\n"
        "            assert str(library) in str(error) and '\\n' not in str(error), error\n"
        "            refused += 1\n"
        "    path.unlink()\n"
        "    path.write_bytes(whole)\n"
        "    fix_digests(library)\n"
        "print(refused)"
    )
    arguments = [sys.executable, "-c", program, sharded_path]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40


def rewritten(path: Path, change: Callable[[dict], object]) -> None:
    """Write the rows of `records.arrow` again, changed, with their digest corrected."""
    from scenario_lib.library.shards import map_file, parse_batch, write_batch

    batch = parse_batch(map_file(path / "records.arrow"), RECORDS_SCHEMA, "test")
    rows = batch.to_pylist()
    change(rows)
    write_batch(path / "records.arrow", pa.RecordBatch.from_pylist(rows, schema=RECORDS_SCHEMA))
    fix_digests(path)


ROWS = [
    (lambda rows: rows[1].update(seed=-7), r"records.arrow: row 1: seed is -7"),
    (lambda rows: rows[1].update(pv_scale=np.nan), r"row 1: pv_scale is nan; expected a finite number"),
    (lambda rows: rows[2].update(ofo_integral=np.inf), r"row 2: ofo_integral is inf"),
    (lambda rows: rows[0].update(t_control_end=3601), r"row 0: control window is '1735 to 3601 s'"),
    (lambda rows: rows[0].update(t_control_start=-1), r"row 0: t_control_start is -1"),
    (lambda rows: rows[0].update(training_overlay="[1]"), r"row 0: training_overlay is '\[1\]'; expected an overlay"),
    (lambda rows: rows[0].update(training_overlay="[" * 10**5), r"row 0: training_overlay is '\[\["),
    (lambda rows: rows[0].update(training_overlay='{"a": NaN}'), r"row 0: training_overlay is "),
    (lambda rows: rows[0].update(recipe="../../etc"), r"names recipe '../../etc', which is not there"),
    (lambda rows: rows[1].update(seed=7), r"seed 7 is there twice"),
    (lambda rows: rows.pop(), r"has 2 rows, its metadata say 3"),
]


@pytest.mark.parametrize(("change", "text"), ROWS, ids=range(len(ROWS)))
def test_rows_that_make_no_sense_are_one_line(sharded_path: Path, change: Callable, text: str) -> None:
    rewritten(sharded_path, change)
    with pytest.raises(LibraryError, match=text) as caught:
        read_all(sharded_path)
    assert str(sharded_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda m: m["store"].update(records=10**12), "has 3 rows, its metadata say 1000000000000"),
        (lambda m: m["store"].update(records=-1), "records is -1"),
        (lambda m: m["store"].update(records_per_shard=0), "records_per_shard is 0"),
        (lambda m: m["store"].update(records_per_shard=10**9), "records_per_shard is 1000000000"),
        (lambda m: m["store"].update(format_version=2), "its store has format version 2, .* reads 1"),
        (lambda m: m["store"].update(path="/etc"), "path"),
        (lambda m: m["store"].pop("contract"), "contract"),
        (lambda m: m.update(store=5), "its store has format version None"),
        (lambda m: m.pop("store"), "not what a library holds .*'proofs'|scenarios"),
    ],
)
def test_layouts_that_make_no_sense_are_one_line(sharded_path: Path, edit: Callable, text: str) -> None:
    edit_metadata(sharded_path, edit)
    with pytest.raises(LibraryError, match=text) as caught:
        ScenarioLibrary(sharded_path)
    assert str(sharded_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_before_they_are_unpacked(sharded_path: Path, compression: str) -> None:
    """A bomb of 150 MB in a file of less than 1 MB."""
    from scenario_lib.library.shards import SHARD_SCHEMA

    row = dict.fromkeys(SHARD_SCHEMA.names, 0) | {name: [] for name in SHARD_SCHEMA.names if name.endswith("s")}
    row |= {"scenario_digest": "", "resolved": bytes(50_000_000)}
    batch = pa.RecordBatch.from_pylist([row] * 3, schema=SHARD_SCHEMA)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    (sharded_path / SHARD).unlink()
    with pa.ipc.new_file(str(sharded_path / SHARD), SHARD_SCHEMA, options=options) as writer:
        writer.write_batch(batch)
    fix_digests(sharded_path)
    assert (sharded_path / SHARD).stat().st_size < 1_000_000
    del batch
    before = pa.total_allocated_bytes()
    with pytest.raises(LibraryError, match=f"{SHARD}: cannot be read .its buffers are compressed"):
        _ = ScenarioLibrary(sharded_path)[0].ofo_voltage_pen_per_step
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_files_that_are_missing_or_not_files(sharded_path: Path) -> None:
    (sharded_path / SHARD).unlink()
    library = ScenarioLibrary(sharded_path)
    with pytest.raises(LibraryError, match=f"{SHARD}: cannot be read"):
        _ = library[0].ofo_voltage_pen_per_step
    (sharded_path / SHARD).mkdir()
    with pytest.raises(LibraryError, match=f"{SHARD}: cannot be read"):
        _ = library[0].ofo_voltage_pen_per_step
    assert validated(sharded_path) is Grade.DIFFERS
    (sharded_path / "records.arrow").unlink()
    with pytest.raises(LibraryError, match=r"records.arrow: cannot be read"):
        ScenarioLibrary(sharded_path)


def test_an_edited_record_is_not_replayed(sharded_path: Path) -> None:
    rewritten(sharded_path, lambda rows: rows[0].update(scenario_digest="0" * 64))
    library = ScenarioLibrary(sharded_path)
    with pytest.raises(ReplayError, match="the scenario of seed 7 cannot be replayed.*its stored digest was changed"):
        library.materialize(library[0])
