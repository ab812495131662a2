"""Candidates as columns: from the table, and from records alone."""

from pathlib import Path

import numpy as np

from scenario_lib.analysis.draws import columns_of_records, columns_of_table
from scenario_lib.library.library import ScenarioLibrary

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


def test_columns_are_those_of_the_table_with_nan_for_what_was_not_measured(built_library: Path) -> None:
    library = ScenarioLibrary(built_library)
    columns = columns_of_table(library.candidates)
    assert columns.seed.tolist() == [7, 1007, 2007, 3007]
    assert columns.accepted.tolist() == [True, False, True, False]
    records = columns_of_records(list(library))
    for name in ("seed", "kind", "baseline_integral_pu_s", "recovery_frac", "window_length_s"):
        assert np.array_equal(getattr(columns, name)[columns.accepted], getattr(records, name))
    rejected = columns.reason[~columns.accepted].tolist()
    assert len(rejected) == 2
    assert "accepted" not in rejected
    assert np.all(columns.kind[columns.baseline_integral_pu_s == 0] == "")


def test_a_library_without_a_table_has_its_records() -> None:
    columns = columns_of_records(list(ScenarioLibrary(OPENG2G)))
    assert len(columns) == 3
    assert columns.accepted.all()
    assert set(columns.reason) == {"accepted"}
