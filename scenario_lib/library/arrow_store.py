"""One field of every record, as an array: of a sharded library without making the records.

The records of a sharded library: columns mapped from `records.arrow`, and a record made when it is asked for.

Checks of a sharded library's records when it is opened: what entries of `metadata.json` are asked for, by column.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scenario_lib._files import canonical_json, parse_json
from scenario_lib._values import LARGEST_SEED, as_position
from scenario_lib.errors import LibraryError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.layout import RECORDS, StoreLayout
from scenario_lib.library.npz_store import FileIdentity, unless_replaced
from scenario_lib.library.record import (
    CONTRACT_FIELDS,
    FIGURES,
    RecordDigests,
    RecordFields,
    ScenarioRecord,
    check_entry,
    violation_kind,
)
from scenario_lib.library.shards import ShardFiles, buffer_digest, map_file, numbers_of, parse_batch, write_batch


def column_of(records: Sequence[ScenarioRecord], name: str) -> NDArray[Any]:
    """A field of the contract, in the order of the records."""
    if isinstance(records, StoredRecords):
        return records.column(name)
    return np.array([getattr(record, name) for record in records])


def kinds_of(records: Sequence[ScenarioRecord]) -> list[str]:
    """ "under", "over" or "mixed" for every record."""
    under, over = column_of(records, "bl_undervoltage_time_s"), column_of(records, "bl_overvoltage_time_s")
    return [violation_kind(*times) for times in zip(under.tolist(), over.tolist(), strict=True)]


_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
_DIGEST_FIELDS = tuple(field.name for field in fields(RecordDigests))
_OVERLAY = "training_overlay"
_BLOCK = 1024


def _arrow_fields(kind: type) -> list[pa.Field]:
    hints = get_type_hints(kind)
    columns = []
    for own in fields(kind):
        kinds = get_args(hints[own.name]) or (hints[own.name],)
        # An overlay is a small table, kept as its JSON.
        columns.append(pa.field(own.name, _ARROW_TYPES.get(kinds[0], pa.string()), nullable=NoneType in kinds))
    return columns


RECORDS_SCHEMA = pa.schema(_arrow_fields(RecordFields) + _arrow_fields(RecordDigests))


def write_records(path: Path, records: Iterable[ScenarioRecord]) -> None:
    """Write the columns of records that have digests."""
    write_batch(path, pa.RecordBatch.from_pylist([_row(record) for record in records], schema=RECORDS_SCHEMA))


def _row(record: ScenarioRecord) -> dict[str, Any]:
    if record.digests is None:
        raise LookupError(f"the record of seed {record.seed} has no digests")
    overlay = None if record.training_overlay is None else canonical_json(record.training_overlay)
    return {**record.contract(), _OVERLAY: overlay, **asdict(record.digests)}


@dataclass(frozen=True, slots=True)
class RecordsFile:
    """One `records.arrow`, known by its bytes: two processes that hold equal ones read the same records.

    Attributes:
        digest: SHA-256 that the file must have.
        opened_as: Of the library; see `unless_replaced`.
    """

    path: Path
    digest: str
    opened_as: FileIdentity = field(default=None, compare=False)

    def read(self) -> pa.RecordBatch:
        """The columns, mapped now.

        Raises:
            LibraryError: Missing, damaged, or another file than the one that is meant.
        """
        with unless_replaced(self.path.parent, self.opened_as):
            buffer = map_file(self.path)
            if buffer_digest(buffer) != self.digest:
                raise LibraryError(
                    f"{self.path}: is not the file that was written with this library, or the library changed since it "
                    f"was opened. Open it again, restore the file, or build the library again"
                )
        return parse_batch(buffer, RECORDS_SCHEMA, str(self.path))


# A library that travels with every task of a worker is checked there once.
_read_once = lru_cache(maxsize=8)(RecordsFile.read)


class StoredRecords(Sequence[ScenarioRecord]):
    """All records of a sharded library, in order; a record is made when it is asked for.

    Pickled, it is a path and a digest: a worker maps the same file, or learns that the library changed.

    Args:
        file: Where the columns are.
        shards: Where traces and resolved numbers are.
        columns: What was read from `file`; None to read it when it is needed.
    """

    def __init__(self, file: RecordsFile, shards: ShardFiles, columns: pa.RecordBatch | None = None) -> None:
        self._file = file
        self._columns = columns
        self.shards = shards

    @property
    def columns(self) -> pa.RecordBatch:
        """The columns, one row a record."""
        if self._columns is None:
            self._columns = _read_once(self._file)
        return self._columns

    def column(self, name: str) -> NDArray[Any]:
        """One field of all records: a number of the contract, a text of its digests."""
        field, column = self.columns.schema.field(name), self.columns.column(name)
        if field.nullable or pa.types.is_string(field.type):
            return np.array(column.to_pylist())
        return numbers_of(column)

    def positions(self, seed: int) -> list[int]:
        """Where the records of a seed are; empty if there is none."""
        if not 0 <= seed <= LARGEST_SEED:
            return []
        order, seeds = self._by_seed
        found = order[np.searchsorted(seeds, seed, "left") : np.searchsorted(seeds, seed, "right")]
        return [int(position) for position in found]

    @cached_property
    def _by_seed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        seeds = self.column("seed")
        order = np.argsort(seeds, kind="stable")
        return order, seeds[order]

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def __iter__(self) -> Iterator[ScenarioRecord]:
        for first in range(0, len(self), _BLOCK):
            yield from self._records(first, _BLOCK)

    @overload
    def __getitem__(self, index: int) -> ScenarioRecord: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ScenarioRecord, ...]: ...
    def __getitem__(self, index: int | slice) -> ScenarioRecord | tuple[ScenarioRecord, ...]:
        if isinstance(index, slice):
            return tuple(self[position] for position in range(*index.indices(len(self))))
        (record,) = self._records(as_position("record", index, len(self)), 1)
        return record

    def _records(self, first: int, count: int) -> Iterator[ScenarioRecord]:
        for index, row in enumerate(self.columns.slice(first, count).to_pylist(), first):
            contract = {name: row[name] for name in CONTRACT_FIELDS}
            contract[_OVERLAY] = self._overlay(row[_OVERLAY], index)
            digests = RecordDigests(**{name: row[name] for name in _DIGEST_FIELDS})
            yield ScenarioRecord(**contract, index=index, digests=digests, traces=self.shards)

    def _overlay(self, text: str | None, index: int) -> dict[str, float] | None:
        if text is None:
            return None
        try:
            overlay = parse_json(text)
        except (ValueError, RecursionError):
            overlay = text
        if not isinstance(overlay, dict):
            raise LibraryError(
                f"{self._file.path}: row {index}: training_overlay is {text[:40]!r}; expected an overlay"
            )
        return overlay

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredRecords, (self._file, self.shards)

    def __repr__(self) -> str:
        return f"StoredRecords({len(self)} in {str(self._file.path.parent / RECORDS)!r})"


def check_stored_records(records: StoredRecords, recipes: Collection[str], layout: StoreLayout, source: str) -> None:
    """Refuse records that make no sense.

    Raises:
        LibraryError: Naming the source, the row and the field, as for an entry of `metadata.json`.
    """
    if len(records) != layout.records:
        raise LibraryError(f"{source}: has {len(records)} rows, its metadata say {layout.records}; it is damaged")
    for index in np.flatnonzero(~_makes_sense(records)):
        check_entry(records[int(index)].contract(), f"{source}: row {index}")
    names = records.column("recipe")
    unknown = set(names) - set(recipes)
    if unknown:
        raise LibraryError(f"{source}: names recipe {str(min(unknown))!r}, which is not there")
    _require_distinct(names, records.column("seed"), source)


def _makes_sense(records: StoredRecords) -> NDArray[np.bool_]:
    start, end = records.column("t_control_start"), records.column("t_control_end")
    fine = (records.column("seed") >= 0) & (start >= 0) & (start < end) & (end <= DURATION_S)
    for name in FIGURES:
        fine &= np.isfinite(records.column(name))
    return np.asarray(fine)


def _require_distinct(names: NDArray[Any], seeds: NDArray[np.int64], source: str) -> None:
    for name in np.unique(names):
        values, counts = np.unique(seeds[names == name], return_counts=True)
        if np.any(counts > 1):
            raise LibraryError(f"{source}: seed {values[counts > 1][0]} is there twice")
