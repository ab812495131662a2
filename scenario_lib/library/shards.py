"""Shards of a sharded library: penalty traces and resolved numbers of consecutive records, mapped when needed.

Most penalties are zero, so a trace is kept as the seconds at which it is not, with the values there: about a fifth of
the bytes, exact, and readable in place. Every row is proven by the digests of its record when it is read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scenario_lib.errors import LibraryError
from scenario_lib.library.arrow_file import map_file, numbers_of, parse_batch, write_batch
from scenario_lib.library.store_layout import StoreLayout
from scenario_lib.library.traces import Array, trace_digest

LONGEST_TRACE_S = 2**16
"""Seconds are kept in 16 bits; an hour is 3600."""

# What a process has mapped at a time counts as its memory once it was read.
_MOST_MAPPED = 16


def _list_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", kind, nullable=False))


# The resolved numbers are text, kept as bytes: a text would be looked through whenever a shard is mapped.
SHARD_SCHEMA = pa.schema(
    [
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("ofo_length", pa.int32(), nullable=False),
        pa.field("ofo_seconds", _list_of(pa.uint16()), nullable=False),
        pa.field("ofo_values", _list_of(pa.float64()), nullable=False),
        pa.field("baseline_length", pa.int32(), nullable=False),
        pa.field("baseline_seconds", _list_of(pa.uint16()), nullable=False),
        pa.field("baseline_values", _list_of(pa.float64()), nullable=False),
        pa.field("scenario_digest", pa.string(), nullable=False),
        pa.field("resolved", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class ShardRow:
    """What a shard holds of one record.

    Attributes:
        baseline, ofo: Penalties (pu^2) at every second, shape (T,).
        scenario_digest: SHA-256 of `resolved`.
        resolved: Canonical JSON of all numbers of the scenario.
    """

    seed: int
    baseline: Array
    ofo: Array
    scenario_digest: str
    resolved: str


def write_shard(path: Path, rows: Iterable[ShardRow]) -> None:
    """Write one shard; no trace may be longer than `LONGEST_TRACE_S`."""
    write_batch(path, pa.RecordBatch.from_pylist([_columns(row) for row in rows], schema=SHARD_SCHEMA))


def _columns(row: ShardRow) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "seed": row.seed,
        "scenario_digest": row.scenario_digest,
        "resolved": row.resolved.encode(),
    }
    for which, trace in (("ofo", row.ofo), ("baseline", row.baseline)):
        # By their bits, so that -0.0 comes back too.
        seconds = np.flatnonzero(np.ascontiguousarray(trace, dtype="<f8").view(np.uint64))
        columns[f"{which}_length"] = len(trace)
        columns[f"{which}_seconds"] = seconds.astype(np.uint16)
        columns[f"{which}_values"] = trace[seconds]
    return columns


class ShardFiles:
    """Reader of all shards of one library; maps a shard when a row of it is asked for, and again in each process.

    Args:
        folder: The library's directory.
        layout: How its records are spread over shards.
    """

    def __init__(self, folder: Path, layout: StoreLayout) -> None:
        self.folder = folder
        self._layout = layout
        self._mapped = lru_cache(maxsize=_MOST_MAPPED)(_map_shard)

    def read(self, name: str, digest: str | None) -> Array:
        """A trace by its name in the contract (`ofo_<i>` or `baseline_<i>`), shape (T,), compared with its digest.

        Raises:
            LibraryError: The shard is missing or damaged, or the trace is not the one that was screened.
        """
        which, _, index = name.rpartition("_")
        shard, row = self._locate(int(index))
        trace = shard.trace(which, row)
        if digest is not None and trace_digest(trace) != digest:
            raise LibraryError(
                f"{shard.path}: trace {name} is not the one that was screened; the library changed since it was "
                f"opened, or was edited. Open it again, or validate it"
            )
        return trace

    def path_of(self, index: int) -> Path:
        """The shard that holds a record."""
        return self.folder / self._layout.shard_of(index)

    def numbers_row(self, index: int) -> dict[str, Any]:
        """Scenario digest and resolved numbers (canonical JSON) of a record, compared with nothing.

        Raises:
            LibraryError: The shard is missing or damaged.
        """
        shard, row = self._locate(index)
        digest, text = (shard.batch.column(name)[row].as_py() for name in ("scenario_digest", "resolved"))
        try:
            return {"scenario_digest": digest, "resolved": text.decode()}
        except UnicodeDecodeError:
            raise LibraryError(f"{shard.path}: the numbers in row {row} are not a text; it is damaged") from None

    def _locate(self, index: int) -> "tuple[_Shard, int]":
        number, row = divmod(index, self._layout.records_per_shard)
        return self._mapped(self.path_of(index), self._layout.shard_records(number)), row

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardFiles, (self.folder, self._layout)


@dataclass(frozen=True, slots=True)
class _Shard:
    """One mapped shard."""

    path: Path
    batch: pa.RecordBatch

    def trace(self, which: str, row: int) -> Array:
        """A trace, with its zeros, compared with nothing."""
        length = self.batch.column(f"{which}_length")[row].as_py()
        seconds, values = self._list(f"{which}_seconds", row), self._list(f"{which}_values", row)
        if not 0 <= length <= LONGEST_TRACE_S or len(seconds) != len(values) or np.any(seconds >= length):
            raise LibraryError(f"{self.path}: the {which} trace in row {row} makes no sense; the library is damaged")
        trace = np.zeros(length)
        trace[seconds] = values
        trace.flags.writeable = False
        return trace

    def _list(self, name: str, row: int) -> NDArray[Any]:
        return numbers_of(self.batch.column(name)[row].values)


def _map_shard(path: Path, n_rows: int) -> _Shard:
    batch = parse_batch(map_file(path), SHARD_SCHEMA, str(path))
    if batch.num_rows != n_rows:
        raise LibraryError(f"{path}: has {batch.num_rows} rows, expected {n_rows}; the library is damaged")
    return _Shard(path, batch)
