"""The candidates table: one row per candidate, accepted or not, with the reason; Parquet.

The first columns are those of openg2g's example. A figure that was not measured, because a rollout did not run, is
null.
"""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import NoneType
from typing import BinaryIO, get_args, get_type_hints

import pyarrow as pa

from scenario_lib.library.tables import read_table, write_table

_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


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


def _schema() -> pa.Schema:
    hints = get_type_hints(CandidateRow)
    columns = []
    for field in fields(CandidateRow):
        kinds = [kind for kind in get_args(hints[field.name]) or (hints[field.name],) if kind is not NoneType]
        columns.append(pa.field(field.name, _ARROW_TYPES[kinds[0]]))
    return pa.schema(columns)


CANDIDATES_SCHEMA = _schema()


def write_candidates(path: Path, rows: list[CandidateRow]) -> None:
    """Write the table; equal rows are equal bytes for one version of pyarrow."""
    write_table(path, pa.Table.from_pylist([asdict(row) for row in rows], schema=CANDIDATES_SCHEMA))


def read_candidates(path: Path, stream: BinaryIO | None = None) -> pa.Table:
    """The candidates table; see `read_table`.

    Raises:
        LibraryError: Missing or damaged.
    """
    return read_table(path, CANDIDATES_SCHEMA, stream)
