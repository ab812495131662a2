"""The candidates table: one row per candidate, accepted or not, with the reason; Parquet.

The first columns are those of openg2g's example. A figure that was not measured, because a rollout did not run, is
null.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from scenario_lib.errors import LibraryError
from scenario_lib.library.files import replacing

_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
_ROW_GROUP_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One candidate.

    Attributes:
        baseline_integral, ofo_integral: Integral violation (pu s).
        bl_undervoltage_time_s and so on: Seconds with any bus-phase below or above its limit.
        recovery_frac: Part of the baseline's integral that OFO removes.
        reason: Why it was accepted, rejected or failed; a value of `screening.criteria.Reason`.
        kind: Which limit the baseline breaks: "under", "over", "mixed"; null without a violation.
        ofo_ran: Whether the OFO rollout was simulated.
        ofo_always_min: Whether OFO kept every model at its smallest batch after 10 s.
        *_margin: Distance to each threshold, negative where it is missed.
        t_control_start, t_control_end: Window around the baseline's violations (s).
        failed_stage, failed_step, failure: Where a candidate failed, at which second, and the message.
        stratum: Name of the stratum that it was tried for; the file has the column only if there are any.
    """

    seed: int
    pv_scale: float | None
    load_scale: float | None
    baseline_integral: float | None
    ofo_integral: float | None
    baseline_violation_time_s: float | None
    ofo_violation_time_s: float | None
    bl_undervoltage_time_s: float | None
    bl_overvoltage_time_s: float | None
    ofo_undervoltage_time_s: float | None
    ofo_overvoltage_time_s: float | None
    recovery_frac: float | None
    accepted: bool
    reason: str
    kind: str | None
    ofo_ran: bool
    ofo_always_min: bool | None
    baseline_worst_v_min_pu: float | None
    baseline_worst_v_max_pu: float | None
    ofo_worst_v_min_pu: float | None
    ofo_worst_v_max_pu: float | None
    baseline_floor_margin: float | None
    baseline_ceiling_margin: float | None
    recovery_floor_margin: float | None
    recovery_ceiling_margin: float | None
    t_control_start: int | None
    t_control_end: int | None
    failed_stage: str | None
    failed_step: int | None
    failure: str | None
    scenario_digest: str | None
    recipe: str
    engine: str
    stratum: str | None = None


def _schema() -> pa.Schema:
    hints = get_type_hints(CandidateRow)
    columns = []
    for field in fields(CandidateRow):
        kinds = [kind for kind in get_args(hints[field.name]) or (hints[field.name],) if kind is not NoneType]
        columns.append(pa.field(field.name, _ARROW_TYPES[kinds[0]]))
    return pa.schema(columns)


CANDIDATES_SCHEMA = _schema()
_PLAIN_SCHEMA = CANDIDATES_SCHEMA.remove(len(CANDIDATES_SCHEMA) - 1)


def write_candidates(path: Path, rows: list[CandidateRow]) -> None:
    """Write the table; equal rows are equal bytes for one version of pyarrow."""
    schema = CANDIDATES_SCHEMA if any(row.stratum is not None for row in rows) else _PLAIN_SCHEMA
    write_table(path, pa.Table.from_pylist([asdict(row) for row in rows], schema=schema))


def read_candidates(path: Path) -> pa.Table:
    """The candidates table, with a column `stratum` of nulls where the file has none.

    Raises:
        LibraryError: Missing or damaged.
    """
    table = read_table(path, CANDIDATES_SCHEMA, _PLAIN_SCHEMA)
    if table.schema.equals(CANDIDATES_SCHEMA):
        return table
    return table.append_column(CANDIDATES_SCHEMA.field("stratum"), pa.nulls(len(table), pa.string()))


def write_table(path: Path, table: pa.Table) -> None:
    """Parquet without compression, whose bytes would depend on the compressor at hand."""
    with replacing(path) as stream:
        pq.write_table(table, stream, compression="NONE", row_group_size=_ROW_GROUP_ROWS)


def read_table(path: Path, *schemas: pa.Schema) -> pa.Table:
    """A Parquet file of a known schema, or of one of several.

    Raises:
        LibraryError: Missing, damaged, or of another schema.
    """
    try:
        table: Any = pq.read_table(path, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise LibraryError(f"{path}: cannot be read ({error}); the library is damaged") from None
    if not any(table.schema.equals(schema) for schema in schemas):
        raise LibraryError(f"{path}: has columns {table.schema.names}; expected {schemas[0].names}")
    return table
