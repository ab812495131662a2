"""Every reason for and against a candidate, the margins, the kinds, and the control window."""

import pytest
from measured_samples import NOTHING, voltages

from scenario_lib.errors import InvalidSettingError
from scenario_lib.screening.criteria import (
    Margins,
    Reason,
    ScreeningCriteria,
    control_window,
    judge,
    judge_baseline,
    kind_of,
    margins,
    recovery_frac,
)

DEFAULTS = ScreeningCriteria()


def test_defaults_are_those_of_openg2gs_example() -> None:
    assert DEFAULTS.to_dict() == {
        "min_baseline_integral": 0.2,
        "min_baseline_integral_over": 0.01,
        "max_baseline_integral": 1e9,
        "min_recovery_frac": 0.7,
        "max_recovery_frac": 1.0,
        "max_always_min": 5,
        "window_before_s": 200,
        "window_after_s": 300,
    }


@pytest.mark.parametrize(
    ("baseline", "ofo", "reason"),
    [
        (voltages(8.0), voltages(1.0), Reason.ACCEPTED),
        (voltages(0.2), voltages(0.0, 0.0), Reason.ACCEPTED),  # at the floor, and at full recovery
        (voltages(0.1999), voltages(0.0), Reason.BASELINE_BELOW_FLOOR),
        (voltages(0.01, 0.0, 5.0), voltages(0.001), Reason.ACCEPTED),  # the lower floor of overvoltage
        (voltages(0.0099, 0.0, 5.0), voltages(0.0), Reason.BASELINE_BELOW_FLOOR),
        (voltages(0.05, 5.0, 5.0), voltages(0.0), Reason.ACCEPTED),  # mixed has it too
        (voltages(0.05, 5.0, 0.0), voltages(0.0), Reason.BASELINE_BELOW_FLOOR),
        (voltages(1.1e9), voltages(0.0), Reason.BASELINE_ABOVE_CEILING),
        (voltages(10.0), voltages(3.001), Reason.RECOVERY_BELOW_FLOOR),
        (voltages(10.0), voltages(12.0), Reason.RECOVERY_BELOW_FLOOR),  # OFO makes it worse
        (NOTHING, NOTHING, Reason.NO_VIOLATION),
        (NOTHING, voltages(1.0), Reason.NO_VIOLATION),
    ],
)
def test_the_verdict_with_default_criteria(baseline, ofo, reason: Reason) -> None:
    assert judge(baseline, ofo, DEFAULTS) is reason


def test_a_recovery_that_is_too_good_can_be_refused() -> None:
    criteria = ScreeningCriteria(min_recovery_frac=0.2, max_recovery_frac=0.8)
    assert judge(voltages(10.0), voltages(2.0), criteria) is Reason.ACCEPTED
    assert judge(voltages(10.0), voltages(1.9), criteria) is Reason.RECOVERY_ABOVE_CEILING


def test_no_floor_lets_a_candidate_without_violation_in() -> None:
    criteria = ScreeningCriteria(min_baseline_integral=0, min_baseline_integral_over=0, min_recovery_frac=0)
    assert judge(NOTHING, NOTHING, criteria) is Reason.NO_VIOLATION
    assert judge_baseline(NOTHING, criteria) is Reason.NO_VIOLATION


def test_the_baseline_alone_rules_out_what_it_can() -> None:
    assert judge_baseline(voltages(0.1), DEFAULTS) is Reason.BASELINE_BELOW_FLOOR
    assert judge_baseline(voltages(2e9), DEFAULTS) is Reason.BASELINE_ABOVE_CEILING
    assert judge_baseline(voltages(8.0), DEFAULTS) is None


@pytest.mark.parametrize(
    ("baseline", "kind"),
    [
        (voltages(1.0, 5.0, 0.0), "under"),
        (voltages(1.0, 0.0, 5.0), "over"),
        (voltages(1.0, 5.0, 5.0), "mixed"),
        (NOTHING, None),
    ],
)
def test_kinds(baseline, kind: str | None) -> None:
    assert kind_of(baseline) == kind


def test_recovery() -> None:
    assert recovery_frac(voltages(8.0), voltages(2.0)) == 0.75
    assert recovery_frac(voltages(8.0), voltages(12.0)) == -0.5
    assert recovery_frac(NOTHING, voltages(2.0)) == 0.0


def test_margins_are_negative_where_a_threshold_is_missed() -> None:
    assert margins(voltages(0.5), voltages(0.25), DEFAULTS) == Margins(
        baseline_floor=0.5 - 0.2, baseline_ceiling=1e9 - 0.5, recovery_floor=0.5 - 0.7, recovery_ceiling=0.5
    )
    assert margins(voltages(0.5, 0.0, 5.0), None, DEFAULTS) == Margins(0.5 - 0.01, 1e9 - 0.5, None, None)
    assert margins(NOTHING, None, DEFAULTS) == Margins(-0.2, 1e9, None, None)
    assert margins(None, None, DEFAULTS) == Margins(None, None, None, None)


@pytest.mark.parametrize(
    ("first_s", "last_s", "window"),
    [(1000, 2000, (800, 2300)), (100, 200, (0, 500)), (3000, 3500, (2800, 3600)), (0, 3599, (0, 3600))],
)
def test_the_control_window_is_cut_at_the_ends_of_the_hour(first_s: int, last_s: int, window: tuple[int, int]) -> None:
    assert control_window(first_s, last_s, DEFAULTS) == window


def test_the_buffers_of_the_window_are_settings() -> None:
    criteria = ScreeningCriteria(window_before_s=0, window_after_s=10)
    assert control_window(1000, 2000, criteria) == (1000, 2010)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"min_baseline_integral": -0.1}, "min_baseline_integral is -0.1; expected at least 0"),
        ({"max_baseline_integral": float("inf")}, "max_baseline_integral is inf; expected a finite number"),
        ({"min_recovery_frac": float("nan")}, "min_recovery_frac is nan; expected a finite number"),
        ({"min_recovery_frac": 0.9, "max_recovery_frac": 0.8}, "max_recovery_frac is 0.8; expected at least"),
        (
            {"min_baseline_integral": 5.0, "max_baseline_integral": 1.0},
            "max_baseline_integral is 1.0; expected at least",
        ),
        ({"max_always_min": -1}, "max_always_min is -1; expected at least 0"),
        ({"max_always_min": 1.5}, "max_always_min is 1.5; expected a whole number"),
        ({"window_before_s": -1}, "window_before_s is -1; expected at least 0"),
        ({"window_after_s": 0}, "window_after_s is 0; expected at least 1"),
        ({"window_after_s": True}, "window_after_s is True; expected a whole number"),
    ],
)
def test_criteria_are_checked(settings: dict, text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text):
        ScreeningCriteria(**settings)
