"""Checks of a sharded library's records when it is opened: what entries of `metadata.json` are asked for, by column."""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import LibraryError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.entries import FIGURES, check_entry
from scenario_lib.library.store_layout import StoreLayout
from scenario_lib.library.stored_records import StoredRecords


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
