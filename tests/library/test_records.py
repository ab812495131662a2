"""Records: exactly the contract's fields, and what is added around them."""

import pickle
from dataclasses import fields

import numpy as np
import pytest

from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.record import CONTRACT_FIELDS, RecordFields, ScenarioRecord, violation_kind

# The fields that openg2g's example reads and writes, in its order.
OPENG2G_FIELDS = (
    "seed",
    "pv_scale",
    "load_scale",
    "training_overlay",
    "baseline_integral",
    "ofo_integral",
    "baseline_violation_time_s",
    "ofo_violation_time_s",
    "recovery_frac",
    "t_control_start",
    "t_control_end",
    "bl_undervoltage_time_s",
    "bl_overvoltage_time_s",
    "randomize_ramps",
    "ramp_frac_min",
    "ramp_frac_max",
    "ramp_start_min",
    "ramp_start_max",
    "ramp_dur_min",
    "ramp_dur_max",
)


def test_the_contract_has_exactly_these_fields() -> None:
    assert CONTRACT_FIELDS == OPENG2G_FIELDS
    assert tuple(field.name for field in fields(RecordFields)) == OPENG2G_FIELDS


@pytest.mark.parametrize(
    ("under_s", "over_s", "kind"),
    [(828.0, 0.0, "under"), (0.0, 12.0, "over"), (828.0, 12.0, "mixed"), (0.0, 0.0, "under")],
)
def test_kind_of_violation(under_s: float, over_s: float, kind: str) -> None:
    assert violation_kind(under_s, over_s) == kind


def test_the_repr_says_what_matters(library_path) -> None:
    record = ScenarioLibrary(library_path)[0]
    assert repr(record) == "ScenarioRecord(seed=7, under, baseline 8.5 pu s, recovery 94%, window 1735-3326 s)"


def test_the_contract_form_leaves_our_own_fields_out(library_path) -> None:
    record = ScenarioLibrary(library_path)[1]
    contract = record.contract()
    assert tuple(contract) == OPENG2G_FIELDS
    assert contract["seed"] == 1007
    assert [contract[name] for name in OPENG2G_FIELDS[13:]] == [None] * 7


def test_a_record_without_a_library_has_no_traces(library_path) -> None:
    record = ScenarioRecord(**ScenarioLibrary(library_path)[0].contract())
    with pytest.raises(LookupError, match="does not belong to a library on disk"):
        _ = record.ofo_voltage_pen_per_step


def test_a_record_travels_between_processes(library_path) -> None:
    record = ScenarioLibrary(library_path)[2]
    baseline = record.baseline_voltage_pen_per_step
    copy = pickle.loads(pickle.dumps(record))
    assert copy.contract() == record.contract()
    assert np.array_equal(copy.baseline_voltage_pen_per_step, baseline)
    assert copy.ofo_voltage_pen_per_step.shape == (3600,)


def test_records_are_frozen(library_path) -> None:
    with pytest.raises(AttributeError):
        ScenarioLibrary(library_path)[0].seed = 8
