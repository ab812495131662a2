"""Parquet files that are small on disk and vast in memory, or not ours, are refused before they are expanded."""

import resource
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scenario_lib.errors import LibraryError
from scenario_lib.library.candidates import read_table, write_table

SCHEMA = pa.schema([("seed", pa.int64()), ("reason", pa.string())])


def table(seeds: list[int], reasons: list[str | None]) -> pa.Table:
    return pa.table({"seed": pa.array(seeds, pa.int64()), "reason": pa.array(reasons, pa.string())}, schema=SCHEMA)


def refusal(path: Path) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LibraryError) as caught:
        read_table(path, SCHEMA)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "kB"
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("count", [0, 1, 3, 100_000])
def test_what_is_written_is_read(tmp_path: Path, count: int) -> None:
    rows = table(list(range(count)), [("accepted", None, "no_violation")[i % 3] for i in range(count)])
    write_table(tmp_path / "t.parquet", rows)
    assert read_table(tmp_path / "t.parquet", SCHEMA).equals(rows)
    with (tmp_path / "t.parquet").open("rb") as stream:
        assert read_table(tmp_path / "t.parquet", SCHEMA, stream).equals(rows)


def test_a_repeated_seed_makes_rows_out_of_nothing(tmp_path: Path) -> None:
    pq.write_table(table([7] * 3_000_000, [None] * 3_000_000), tmp_path / "t.parquet", compression="NONE")
    assert (tmp_path / "t.parquet").stat().st_size < 30_000
    assert "claims 3000000 rows in " in refusal(tmp_path / "t.parquet")


def test_a_repeated_text_is_not_expanded(tmp_path: Path) -> None:
    reasons = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 100_000]))
    rows = pa.table({"seed": pa.array(range(20_000), pa.int64()), "reason": reasons})
    pq.write_table(rows, tmp_path / "t.parquet", compression="NONE", store_schema=False)
    assert (tmp_path / "t.parquet").stat().st_size < 500_000
    assert "holds 2000000000 bytes of repeated text" in refusal(tmp_path / "t.parquet")


@pytest.mark.parametrize("codec", ["ZSTD", "SNAPPY", "GZIP"])
def test_a_compressed_table_is_not_ours(tmp_path: Path, codec: str) -> None:
    pq.write_table(table([7], ["x" * 10_000_000]), tmp_path / "t.parquet", compression=codec)
    assert "scenario-lib writes its tables uncompressed" in refusal(tmp_path / "t.parquet")


def test_another_schema_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"seed": [1.5]}), tmp_path / "t.parquet")
    assert "has columns ['seed']; expected ['seed', 'reason']" in refusal(tmp_path / "t.parquet")


def test_missing_empty_and_foreign_files(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "absent.parquet")
    (tmp_path / "t.parquet").write_bytes(b"")
    assert "cannot be read" in refusal(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_bytes(b"PAR1" + b"\xff" * 100 + b"PAR1")
    assert "cannot be read" in refusal(tmp_path / "t.parquet")


def test_a_column_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    pq.write_table(table([7], ["accepted"]), tmp_path / "t.parquet", compression="NONE", store_schema=False)
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content.replace(b"reason", b"rea\x80on"))
    assert "cannot be read" in refusal(tmp_path / "t.parquet")


def test_a_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", table([7], ["accepted"]))
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content.replace(b"accepted", b"acc\x80pted"))
    assert "cannot be read" in refusal(tmp_path / "t.parquet")
