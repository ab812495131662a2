"""One field of every record, as an array: of a sharded library without making the records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.library.record import ScenarioRecord, violation_kind
from scenario_lib.library.stored_records import StoredRecords


def column_of(records: Sequence[ScenarioRecord], name: str) -> NDArray[Any]:
    """A field of the contract, in the order of the records."""
    if isinstance(records, StoredRecords):
        return records.column(name)
    return np.array([getattr(record, name) for record in records])


def kinds_of(records: Sequence[ScenarioRecord]) -> list[str]:
    """ "under", "over" or "mixed" for every record."""
    under, over = column_of(records, "bl_undervoltage_time_s"), column_of(records, "bl_overvoltage_time_s")
    return [violation_kind(*times) for times in zip(under.tolist(), over.tolist(), strict=True)]
