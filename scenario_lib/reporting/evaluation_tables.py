"""The tables that `scenario-lib evaluate --out` wrote, read without any learning code."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.regular_files import open_regular
from scenario_lib.scenario.curves import Array

SCENARIOS, SUMMARY = "scenarios.parquet", "summary.parquet"

SPREADS = {
    "violation_time_s": "time outside the limits (s)",
    "throughput_relative": "throughput, of the largest batches",
    "itl_p99_over_deadline": "99th percentile of latency, of the deadline",
    "batch_changes": "changes of batch sizes",
}
"""Figures whose spread over scenarios is shown, and what they are called."""

_SCENARIO_COLUMNS = ("index", "seed", "kind", "control", "integral_pu_s", *SPREADS, "failure")
_SUMMARY_COLUMNS = (
    "control",
    "scenarios",
    "failed",
    "integral_pu_s",
    "removed_frac",
    "violation_time_s",
    "worst_v_min_pu",
    "worst_v_max_pu",
    "throughput_relative",
    "itl_p99_s",
    "itl_p99_over_deadline",
    "mean_power_kw",
    "batch_changes",
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The two tables of an evaluation as rows of plain values."""

    scenarios: list[dict[str, Any]]
    summary: list[dict[str, Any]]

    @property
    def controls(self) -> list[str]:
        """Names of the controls, in the order asked for."""
        return [row["control"] for row in self.summary]

    def by_control(self, column: str) -> dict[str, Array]:
        """One column, by control, scenario by scenario; NaN where a rollout failed."""
        return {
            control: np.array(
                [np.nan if row[column] is None else row[column] for row in self.scenarios if row["control"] == control],
                float,
            )
            for control in self.controls
        }


def read_evaluation(folder: Path) -> Evaluation:
    """The tables of an evaluation.

    Raises:
        MissingDataError: A table is not there.
        DataFileError: One is not what `evaluate` writes, or has no row.
    """
    return Evaluation(_rows(folder / SCENARIOS, _SCENARIO_COLUMNS), _rows(folder / SUMMARY, _SUMMARY_COLUMNS))


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file; give the directory that 'scenario-lib evaluate --out' wrote")
    try:
        with open_regular(path) as stream:
            rows: list[dict[str, Any]] = pq.read_table(stream, columns=list(columns), use_threads=False).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataFileError(f"{path}: cannot be read ({error}); evaluate again") from None
    missing = [name for name in columns if not rows or name not in rows[0]]
    if missing:
        raise DataFileError(f"{path}: {'no rows' if not rows else f'lacks {missing}'}; expected what 'evaluate' writes")
    return rows
