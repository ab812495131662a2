"""The resolved numbers of a library's scenarios: what a record can be replayed from when its seed no longer means the
same draws. They are in `resolved.parquet`, or in the shards of a sharded library.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from scenario_lib.errors import LibraryError
from scenario_lib.library.arrow_store import StoredRecords
from scenario_lib.library.candidates import read_table
from scenario_lib.library.layout import RESOLVED
from scenario_lib.library.metadata import LibraryContents
from scenario_lib.library.npz_store import FileIdentity, unless_replaced
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.model import Scenario, scenario_digest, scenario_from_resolved

RESOLVED_SCHEMA = pa.schema(
    [("seed", pa.int64()), ("recipe", pa.string()), ("scenario_digest", pa.string()), ("resolved", pa.string())]
)


def require_proven(row: dict[str, Any], record: ScenarioRecord, path: Path) -> None:
    """Refuse a row of resolved numbers that is not the one that a record's digest is of.

    Raises:
        LibraryError: Naming the file and the seed.
    """
    digest = None if record.digests is None else record.digests.scenario_digest
    if row["scenario_digest"] != digest or hashlib.sha256(row["resolved"].encode()).hexdigest() != digest:
        raise LibraryError(
            f"{path}: the stored numbers of seed {record.seed} are not those that were screened; validate the library"
        )


class _NumbersRows(Protocol):
    """Rows of resolved numbers, wherever a library has them."""

    def path_of(self, index: int) -> Path:
        """The file that has the row of a record."""
        ...

    def numbers_row(self, index: int) -> dict[str, Any] | None:
        """`scenario_digest` and `resolved` of a record, compared with nothing; None if there is no such row."""
        ...


def numbers_rows(folder: Path, contents: LibraryContents) -> _NumbersRows:
    """The rows of a library: in its shards, or in one table."""
    records = contents.records
    return records.shards if isinstance(records, StoredRecords) else _ResolvedTable(folder / RESOLVED, contents)


class _ResolvedTable:
    """Rows of one `resolved.parquet`; reads it when the first is asked for, and again in each process.

    Args:
        path: The file.
        contents: What the library's metadata says of it.
    """

    def __init__(self, path: Path, contents: LibraryContents) -> None:
        self._path = path
        self._contents = contents
        self._table: pa.Table | None = None

    def path_of(self, index: int) -> Path:  # noqa: ARG002 - one file has all
        """The file."""
        return self._path

    def numbers_row(self, index: int) -> dict[str, Any] | None:
        """The row of a record.

        Raises:
            LibraryError: The file is missing, damaged, or another one.
        """
        if self._table is None:
            with self._contents.unchanged(self._path) as stream:
                self._table = read_table(self._path, RESOLVED_SCHEMA, stream)
        if not 0 <= index < len(self._table):
            return None
        row: dict[str, Any] = self._table.slice(index, 1).to_pylist()[0]
        return row

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}


class ResolvedNumbers:
    """Numbers and scenarios of a library's records, proven by their digests.

    Args:
        rows: Where the numbers are.
        opened_as: Of the library; see `unless_replaced`.
    """

    def __init__(self, rows: _NumbersRows, opened_as: FileIdentity = None) -> None:
        self._rows = rows
        self._opened_as = opened_as

    def numbers(self, record: ScenarioRecord) -> dict[str, Any]:
        """The resolved numbers of a record's scenario, exactly those that were screened.

        Raises:
            LibraryError: The library has none, they are damaged, or they are not those that the record's digest is of.
        """
        with unless_replaced(self._rows.path_of(record.index).parent, self._opened_as):
            if record.digests is None or self._row(record)["scenario_digest"] != record.digests.scenario_digest:
                raise self._error(record, "are not those that were screened")
            return self.written(record)

    def written(self, record: ScenarioRecord) -> dict[str, Any]:
        """The numbers in a record's row, compared with the digest beside them, but not with the record's.

        Raises:
            LibraryError: The library has none, or they are damaged.
        """
        row = self._row(record)
        if hashlib.sha256(str(row["resolved"]).encode()).hexdigest() != row["scenario_digest"]:
            raise self._error(record, "are not those that their digest is of")
        try:
            numbers = json.loads(row["resolved"])
        except (ValueError, RecursionError):
            numbers = None
        if not isinstance(numbers, dict):
            raise self._error(record, "are damaged")
        return numbers

    def scenario(self, record: ScenarioRecord) -> Scenario:
        """The scenario that a record's numbers mean, labelled as made of them.

        Raises:
            LibraryError: As from `numbers`, or they are not those of a scenario.
        """
        numbers = self.numbers(record)
        try:
            scenario = scenario_from_resolved(numbers)
            same = record.digests is not None and scenario_digest(scenario) == record.digests.scenario_digest
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            text = " ".join(str(error).split())
            raise self._error(record, f"are not those of a scenario ({text})") from None
        if not same:
            raise self._error(
                record, "mean another scenario to this version of scenario-lib than to the one that wrote them"
            )
        return scenario

    def _row(self, record: ScenarioRecord) -> dict[str, Any]:
        row = self._rows.numbers_row(record.index)
        if row is None:
            raise self._error(record, "are missing")
        return row

    def _error(self, record: ScenarioRecord, what: str) -> LibraryError:
        return LibraryError(
            f"{self._rows.path_of(record.index)}: the stored numbers of seed {record.seed} {what}; restore the library "
            f"from a copy, or build it again"
        )
