"""All candidates of a library as columns of numbers, for figures and statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.curves import Array
from scenario_lib.screening.criteria import Reason

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CandidateColumns:
    """One entry a candidate, in seed order; NaN where a figure was not measured.

    Attributes:
        reason: Values of `Reason`, as texts.
        kind: "under", "over", "mixed", or "" without a violation.
        recovery_frac: Part of the baseline's integral that OFO removes.
        window_start_s, window_end_s: Control window (s).
    """

    seed: NDArray[np.int64]
    accepted: NDArray[np.bool_]
    reason: NDArray[np.str_]
    kind: NDArray[np.str_]
    baseline_integral_pu_s: Array
    recovery_frac: Array
    window_start_s: Array
    window_end_s: Array

    def __len__(self) -> int:
        return len(self.seed)

    @property
    def window_length_s(self) -> Array:
        """Length of the control window (s)."""
        return self.window_end_s - self.window_start_s


def columns_of_table(table: "pa.Table") -> CandidateColumns:
    """The columns of a library's candidates table."""

    def texts(name: str) -> NDArray[np.str_]:
        return np.array([value or "" for value in table.column(name).to_pylist()], dtype=np.str_)

    def numbers(name: str) -> Array:
        return np.array([np.nan if value is None else value for value in table.column(name).to_pylist()], float)

    return CandidateColumns(
        seed=np.array(table.column("seed").to_pylist(), np.int64),
        accepted=np.array(table.column("accepted").to_pylist(), np.bool_),
        reason=texts("reason"),
        kind=texts("kind"),
        baseline_integral_pu_s=numbers("baseline_integral"),
        recovery_frac=numbers("recovery_frac"),
        window_start_s=numbers("t_control_start"),
        window_end_s=numbers("t_control_end"),
    )


def columns_of_records(records: Sequence[ScenarioRecord]) -> CandidateColumns:
    """The same of records alone, for a library without a candidates table: all of them were accepted."""

    def numbers(name: str) -> Any:
        return np.array([getattr(record, name) for record in records], float)

    return CandidateColumns(
        seed=np.array([record.seed for record in records], np.int64),
        accepted=np.ones(len(records), np.bool_),
        reason=np.array([str(Reason.ACCEPTED)] * len(records), dtype=np.str_),
        kind=np.array([record.kind for record in records], dtype=np.str_),
        baseline_integral_pu_s=numbers("baseline_integral"),
        recovery_frac=numbers("recovery_frac"),
        window_start_s=numbers("t_control_start"),
        window_end_s=numbers("t_control_end"),
    )
