"""The resolved numbers of a library's scenarios, in `resolved.parquet`: what a record can be replayed from when its
seed no longer means the same draws."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from scenario_lib.errors import LibraryError
from scenario_lib.library.contents import LibraryContents
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.tables import read_table
from scenario_lib.scenario.canonical import scenario_digest, scenario_from_resolved
from scenario_lib.scenario.model import Scenario

RESOLVED_SCHEMA = pa.schema(
    [("seed", pa.int64()), ("recipe", pa.string()), ("scenario_digest", pa.string()), ("resolved", pa.string())]
)


class ResolvedNumbers:
    """Reader of one `resolved.parquet`; reads it when the first numbers are asked for, and again in each process.

    Args:
        path: The file.
        contents: What the library's metadata says of it.
    """

    def __init__(self, path: Path, contents: LibraryContents) -> None:
        self.path = path
        self._contents = contents
        self._table: pa.Table | None = None

    def numbers(self, record: ScenarioRecord) -> dict[str, Any]:
        """The resolved numbers of a record's scenario, exactly those that were screened.

        Raises:
            LibraryError: The library has none, they are damaged, or they are not those that the record's digest is of.
        """
        if record.proof is None or self._row(record)["scenario_digest"] != record.proof.scenario_digest:
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
            same = record.proof is not None and scenario_digest(scenario) == record.proof.scenario_digest
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            text = " ".join(str(error).split())
            raise self._error(record, f"are not those of a scenario ({text})") from None
        if not same:
            raise self._error(
                record, "mean another scenario to this version of scenario-lib than to the one that wrote them"
            )
        return scenario

    def _row(self, record: ScenarioRecord) -> dict[str, Any]:
        table = self._read()
        if not 0 <= record.index < len(table):
            raise self._error(record, "are missing")
        row: dict[str, Any] = table.slice(record.index, 1).to_pylist()[0]
        return row

    def _read(self) -> pa.Table:
        if self._table is None:
            with self._contents.unchanged(self.path) as stream:
                self._table = read_table(self.path, RESOLVED_SCHEMA, stream)
        return self._table

    def _error(self, record: ScenarioRecord, what: str) -> LibraryError:
        return LibraryError(
            f"{self.path}: the stored numbers of seed {record.seed} {what}; restore the library from a copy, or build "
            f"it again"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}
