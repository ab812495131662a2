"""Conversion between the two stores: nothing is lost, or nothing is written."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from library_samples import edit_metadata, fix_digests, sample_traces, write_sample

from scenario_lib._files import file_digest
from scenario_lib.errors import BuildRefusedError, InvalidSettingError, LibraryError
from scenario_lib.library import convert as to_contract
from scenario_lib.library.convert import convert_library
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.npz_store import TraceArchiveDigest, write_traces
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_there_and_back_gives_equal_bytes(library_path: Path, tmp_path: Path) -> None:
    (library_path / "build-log.json").write_text("{}")
    there = convert_library(library_path, "sharded", tmp_path / "sharded")
    back = convert_library(there.target, "contract", tmp_path / "back")
    assert files_of(back.target) == files_of(library_path)
    assert (there.records, back.records, back.notes) == (3, 3, ())
    assert there.source_bytes == back.target_bytes == sum(map(len, files_of(library_path).values())) - 2
    assert there.target_bytes == back.source_bytes


def test_equal_libraries_are_equal_sharded(library_path: Path, tmp_path: Path) -> None:
    first, second = (convert_library(library_path, "sharded", tmp_path / name).target for name in ("a", "b"))
    assert files_of(first) == files_of(second)
    assert sorted(files_of(first)) == [
        "candidates.parquet",
        "digests.json",
        "metadata.json",
        "records.arrow",
        "shard-00000.arrow",
    ]


def test_several_recipes_over_several_shards(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenario_lib.library.convert.RECORDS_PER_SHARD", 4)
    other = replace(recipe, settings=RandomizationSettings(ramp_up_prob=0.3))
    seeds = list(range(7, 5007, 1000))
    contract = write_sample(tmp_path / "contract", [(recipe, seeds), (other, seeds)])
    sharded = convert_library(contract, "sharded", tmp_path / "sharded").target
    assert len(list(sharded.glob("shard-*.arrow"))) == 3
    library, expected = ScenarioLibrary(sharded), ScenarioLibrary(contract)
    assert [record.contract() for record in library] == [record.contract() for record in expected]
    for record in library:
        baseline, ofo = sample_traces(record.seed)
        np.testing.assert_array_equal(record.baseline_voltage_pen_per_step, baseline)
        np.testing.assert_array_equal(record.ofo_voltage_pen_per_step, ofo)
        assert library.stored_numbers(record) == expected.stored_numbers(expected[record.index])
    assert files_of(convert_library(sharded, "contract", tmp_path / "back").target) == files_of(contract)


def test_an_empty_library_converts_too(recipe: Recipe, tmp_path: Path) -> None:
    empty = write_sample(tmp_path / "empty", [(recipe, [])])
    sharded = convert_library(empty, "sharded", tmp_path / "sharded").target
    with pytest.raises(LibraryError, match=f"{sharded}: the library is empty"):
        ScenarioLibrary(sharded)
    assert files_of(convert_library(sharded, "contract", tmp_path / "back").target) == files_of(empty)


def test_odd_penalties_come_back_bit_for_bit(library_path: Path, tmp_path: Path) -> None:
    odd = np.zeros(3600)
    odd[[0, 5, 3599]] = -0.0, 5e-324, 1.0
    pairs = [(odd, np.zeros(0)), (np.full(3600, 2.0), np.zeros(2**16)), sample_traces(1)]
    write_traces(library_path / "traces.npz", pairs)

    def adopt(metadata: dict) -> None:
        from scenario_lib.library.npz_store import trace_digest

        for proof, (baseline, ofo) in zip(metadata["proofs"], pairs, strict=True):
            proof |= {"baseline_digest": trace_digest(baseline), "ofo_digest": trace_digest(ofo)}

    rewrite(library_path, adopt)
    sharded = ScenarioLibrary(convert_library(library_path, "sharded", tmp_path / "sharded").target)
    assert sharded[0].baseline_voltage_pen_per_step.tobytes() == odd.tobytes()
    assert [len(record.ofo_voltage_pen_per_step) for record in sharded] == [0, 2**16, 3600]
    back = convert_library(sharded.path, "contract", tmp_path / "back").target
    assert files_of(back) == files_of(library_path)


def rewrite(library: Path, edit) -> None:
    """Edit metadata, written as the library writes them."""
    from scenario_lib._files import write_json

    metadata = json.loads((library / "metadata.json").read_text())
    edit(metadata)
    write_json(library / "metadata.json", metadata)
    fix_digests(library)


def test_the_archives_digest_is_that_of_the_file(tmp_path: Path) -> None:
    pairs = [sample_traces(seed) for seed in range(30)]
    write_traces(tmp_path / "traces.npz", pairs)
    with TraceArchiveDigest() as digest:
        for pair in pairs:
            digest.add(*pair)
    assert digest.hexdigest() == file_digest(tmp_path / "traces.npz")


def refusal(source: Path, store: str, tmp_path: Path) -> str:
    """The message of a conversion that leaves nothing behind."""
    before = files_of(source)
    with pytest.raises((LibraryError, InvalidSettingError)) as caught:
        convert_library(source, store, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []
    assert files_of(source) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_would_not_come_back_with_equal_bytes_is_refused(library_path: Path, tmp_path: Path) -> None:
    edit_metadata(library_path, lambda metadata: None)  # the same values, on one line
    assert "metadata.json: would not come back with the bytes that it has" in refusal(library_path, "sharded", tmp_path)


def test_traces_in_another_archive_are_refused(library_path: Path, tmp_path: Path) -> None:
    library = ScenarioLibrary(library_path)
    arrays = {}
    for record in library:
        arrays[f"ofo_{record.index}"] = record.ofo_voltage_pen_per_step
        arrays[f"baseline_{record.index}"] = record.baseline_voltage_pen_per_step
    np.savez_compressed(library_path / "traces.npz", **arrays)
    fix_digests(library_path)
    assert "traces.npz: would not come back" in refusal(library_path, "sharded", tmp_path)


def test_a_trace_that_a_shard_cannot_hold_is_refused(library_path: Path, tmp_path: Path) -> None:
    from scenario_lib.library.npz_store import trace_digest

    pairs = [(np.ones(2**16 + 1), np.ones(3600))] * 3
    write_traces(library_path / "traces.npz", pairs)
    digests = {"baseline_digest": trace_digest(pairs[0][0]), "ofo_digest": trace_digest(pairs[0][1])}
    rewrite(library_path, lambda metadata: [proof.update(digests) for proof in metadata["proofs"]])
    assert "a trace of seed 7 is longer than 65536 s" in refusal(library_path, "sharded", tmp_path)


def test_damage_is_not_converted(library_path: Path, tmp_path: Path) -> None:
    for name in ("candidates.parquet", "resolved.parquet", "traces.npz"):
        whole = (library_path / name).read_bytes()
        (library_path / name).write_bytes(whole.replace(whole[len(whole) // 2 :][:8], b"\x01" * 8))
        assert name in refusal(library_path, "sharded", tmp_path)
        (library_path / name).write_bytes(whole)


def test_numbers_of_another_scenario_are_refused(library_path: Path, tmp_path: Path) -> None:
    edit = lambda metadata: metadata["proofs"][1].update(scenario_digest="0" * 64)  # noqa: E731
    rewrite(library_path, edit)
    assert "resolved.parquet: the stored numbers of seed 1007 are not those that were screened" in refusal(
        library_path, "sharded", tmp_path
    )


def test_a_damaged_shard_is_not_converted(library_path: Path, tmp_path: Path) -> None:
    sharded = convert_library(library_path, "sharded", tmp_path / "sharded").target
    shard = sharded / "shard-00000.arrow"
    whole = shard.read_bytes()
    shard.unlink()
    shard.write_bytes(whole[: len(whole) // 2])
    assert f"{shard}: cannot be read" in refusal(sharded, "contract", tmp_path)
    replaced = whole.replace(b'"seed":1007', b'"seed":1008')
    assert replaced != whole
    shard.unlink()
    shard.write_bytes(replaced)
    assert f"{shard}: the stored numbers of seed 1007 are not" in refusal(sharded, "contract", tmp_path)


def test_metadata_edited_in_the_sharded_form_do_not_pass_as_the_old_ones(library_path: Path, tmp_path: Path) -> None:
    sharded = convert_library(library_path, "sharded", tmp_path / "sharded").target
    rewrite(sharded, lambda metadata: metadata["versions"].update(numpy="1.0"))
    assert "metadata.json: does not come back with the bytes that it had" in refusal(sharded, "contract", tmp_path)


def test_another_parquet_writer_is_noted(library_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    sharded = convert_library(library_path, "sharded", tmp_path / "sharded").target
    monkeypatch.setattr(to_contract, "write_table", lambda path, table: pq.write_table(table, path, version="1.0"))
    back = convert_library(sharded, "contract", tmp_path / "back")
    assert "resolved.parquet has the same rows in other bytes" in back.notes[0]
    library = ScenarioLibrary(back.target)
    assert library.stored_numbers(library[2]) == ScenarioLibrary(library_path).stored_numbers(library[2])


def test_what_is_stored_so_already_or_has_no_digests(library_path: Path, openg2g_path: Path, tmp_path: Path) -> None:
    assert "is stored as 'contract' already" in refusal(library_path, "contract", tmp_path)
    assert "store is 'zip'; expected one of contract, sharded" in refusal(library_path, "zip", tmp_path)
    assert "has no digests" in refusal(openg2g_path, "sharded", tmp_path)


def test_a_target_that_exists_stays_unless_it_may_be_replaced(library_path: Path, tmp_path: Path) -> None:
    target = Path(shutil.copytree(library_path, tmp_path / "target"))
    before = files_of(target)
    with pytest.raises(BuildRefusedError, match="exists already; replace it with --overwrite"):
        convert_library(library_path, "sharded", target)
    assert files_of(target) == before
    assert convert_library(library_path, "sharded", target, overwrite=True).target == target
    assert "records.arrow" in files_of(target)
