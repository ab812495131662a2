import pytest

from scenario_lib.analysis.pairing import acceptance_shift, figure_shift, holm_adjusted


def test_fishers_exact_test_on_a_table_counted_by_hand() -> None:
    # Table [[3, 1], [1, 3]]: of the 70 equally likely ways 34 are at least as extreme on both sides, 34 / 70.
    shift = acceptance_shift("acceptance", [True] * 3 + [False], [True] + [False] * 3)
    assert shift is not None
    assert (shift.before, shift.after, shift.effect) == (0.75, 0.25, -0.5)
    assert shift.p_value == pytest.approx(34 / 70)


def test_kolmogorov_smirnov_on_samples_apart() -> None:
    # Samples that do not overlap: D = 1, and p = 2 / (6 choose 3) exactly.
    shift = figure_shift("figure", [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert shift is not None
    assert (shift.before, shift.after, shift.effect) == (2.0, 5.0, 1.0)
    assert shift.p_value == pytest.approx(2 / 20)


def test_an_empty_sample_is_no_test() -> None:
    assert acceptance_shift("acceptance", [], [True]) is None
    assert figure_shift("figure", [1.0], []) is None


def test_holms_adjustment() -> None:
    base = figure_shift("figure", [1.0], [1.0])
    assert base is not None
    from dataclasses import replace

    # Holm's own order: 0.01 * 3, then max with 0.02 * 2, then max with 0.03 * 1.
    shifts = [replace(base, p_value=p) for p in (0.03, 0.01, 0.02)]
    assert [shift.adjusted_p for shift in holm_adjusted(shifts)] == pytest.approx([0.04, 0.03, 0.04])
    assert holm_adjusted([replace(base, p_value=0.9), replace(base, p_value=0.8)])[0].adjusted_p == 1.0
