"""The candidates table: openg2g's columns first, every row back as it was, damage refused."""

from dataclasses import asdict, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from library_samples import sample_row

from scenario_lib.errors import LibraryError
from scenario_lib.library.candidates import CANDIDATES_SCHEMA, CandidateRow, read_candidates, write_candidates

ROWS = [sample_row(7, True, "abc"), sample_row(2**62 + 7, False)]


def test_the_first_columns_are_those_of_openg2gs_table(openg2g_path: Path) -> None:
    header = (openg2g_path / "candidates.csv").read_text().splitlines()[0].split(",")
    assert len(header) == 13
    assert CANDIDATES_SCHEMA.names[:13] == header
    assert CANDIDATES_SCHEMA.names == [field.name for field in fields(CandidateRow)]


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    write_candidates(tmp_path / "c.parquet", ROWS)
    table = read_candidates(tmp_path / "c.parquet")
    assert table.to_pylist() == [asdict(row) for row in ROWS]
    assert table.column("baseline_integral").to_pylist() == [None, None], "not measured is null, not 0"


def test_equal_rows_are_equal_bytes(tmp_path: Path) -> None:
    write_candidates(tmp_path / "a.parquet", ROWS)
    write_candidates(tmp_path / "b.parquet", ROWS)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_an_empty_table_keeps_its_columns(tmp_path: Path) -> None:
    write_candidates(tmp_path / "c.parquet", [])
    table = read_candidates(tmp_path / "c.parquet")
    assert table.num_rows == 0
    assert table.schema.equals(CANDIDATES_SCHEMA)


def test_a_seed_that_is_no_64_bit_number_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises((OverflowError, pa.ArrowException)):
        write_candidates(tmp_path / "c.parquet", [sample_row(2**63, True)])
    assert list(tmp_path.iterdir()) == []


def test_damage_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    write_candidates(path, ROWS)
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-20], b"PAR1" * 10, whole[:-8] + bytes(8)):
        path.write_bytes(content)
        with pytest.raises(LibraryError) as caught:
            read_candidates(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"c.parquet: cannot be read"):
        read_candidates(tmp_path / "c.parquet")
    (tmp_path / "d.parquet").mkdir()
    with pytest.raises(LibraryError, match=r"d.parquet: "):
        read_candidates(tmp_path / "d.parquet")


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"seed": [7]}), path)
    with pytest.raises(LibraryError, match=r"c.parquet: has columns \['seed'\]; expected \['seed', 'pv_scale'"):
        read_candidates(path)
