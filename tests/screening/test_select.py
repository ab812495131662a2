"""Choosing is order-free: caps and targets follow the order of seeds, not the order in which workers finish."""

import random

import pytest
from measured_samples import accepted, measured, voltages

from scenario_lib.screening.build_record import candidate_of_row, candidate_row
from scenario_lib.screening.candidate import Candidate, StageFailure
from scenario_lib.screening.criteria import Reason, ScreeningCriteria
from scenario_lib.screening.request import Goal
from scenario_lib.screening.select import Selection, select, verdict

CRITERIA = ScreeningCriteria(max_always_min=2)


def candidates() -> list[Candidate]:
    """Ten candidates: trivial ones at 0, 2, 4, 6, accepted ones at 1, 5, 9, others not."""
    others = {
        3: measured(3, voltages(0.0, 0.0)),
        7: Candidate(7, failure=StageFailure(Reason.TIMEOUT, "worker", None, "took longer than 1 s")),
        8: measured(8, voltages(10.0), voltages(9.0)),
    }
    return [others.get(seed) or accepted(seed, always_min=seed % 2 == 0) for seed in range(10)]


REASONS = [
    Reason.ACCEPTED,
    Reason.ACCEPTED,
    Reason.ACCEPTED,
    Reason.NO_VIOLATION,
    Reason.ALWAYS_MIN_CAP,
    Reason.ACCEPTED,
    Reason.ALWAYS_MIN_CAP,
    Reason.TIMEOUT,
    Reason.RECOVERY_BELOW_FLOOR,
    Reason.ACCEPTED,
]


@pytest.mark.parametrize("shuffle", range(20))
def test_the_first_trivial_ones_in_seed_order_are_kept_whatever_the_order(shuffle: int) -> None:
    shuffled = candidates()
    random.Random(shuffle).shuffle(shuffled)
    judged = select(shuffled, CRITERIA)
    assert [each.seed for each in judged] == list(range(10))
    assert [each.reason for each in judged] == REASONS
    assert [each.seed for each in judged if each.accepted] == [0, 1, 2, 5, 9]


@pytest.mark.parametrize(("accept", "last_row"), [(1, 0), (2, 1), (3, 2), (4, 5), (5, 9), (6, 9), (None, 9)])
@pytest.mark.parametrize("shuffle", range(3))
def test_the_table_ends_at_the_row_of_the_last_one_wanted(accept: int | None, last_row: int, shuffle: int) -> None:
    shuffled = candidates()
    random.Random(shuffle).shuffle(shuffled)
    judged = select(shuffled, CRITERIA, Goal(accept))
    assert [each.reason for each in judged] == REASONS[: last_row + 1]


def test_later_seeds_never_change_earlier_verdicts() -> None:
    for count in range(10):
        assert [each.reason for each in select(candidates()[:count], CRITERIA)] == REASONS[:count]


def test_a_trivial_candidate_that_is_refused_anyway_does_not_count() -> None:
    refused = measured(0, voltages(10.0), voltages(9.0), ofo_always_min=True)
    judged = select([refused, accepted(1, always_min=True), accepted(2, always_min=True)], CRITERIA)
    assert [each.reason for each in judged] == [
        Reason.RECOVERY_BELOW_FLOOR,
        Reason.ACCEPTED,
        Reason.ACCEPTED,
    ]


def test_no_trivial_ones_at_all_can_be_asked_for() -> None:
    judged = select([accepted(0, always_min=True), accepted(1)], ScreeningCriteria(max_always_min=0))
    assert [each.reason for each in judged] == [Reason.ALWAYS_MIN_CAP, Reason.ACCEPTED]


def test_the_running_count_is_of_accepted_ones() -> None:
    selection = Selection(CRITERIA)
    counts = []
    for candidate in candidates():
        selection.judge(candidate)
        counts.append(selection.accepted)
    assert counts == [1, 2, 3, 3, 3, 4, 4, 4, 4, 5]


def test_another_band_can_be_judged_from_the_same_figures() -> None:
    judged = select(candidates(), ScreeningCriteria(min_recovery_frac=0.05, max_recovery_frac=0.5))
    assert [each.seed for each in judged if each.accepted] == [8]


def test_figures_that_cannot_be_judged_are_an_error() -> None:
    with pytest.raises(LookupError, match="seed 3 has neither figures nor a failure"):
        verdict(measured(3, None), CRITERIA)
    with pytest.raises(LookupError, match="seed 3 needs its OFO rollout"):
        verdict(measured(3, voltages(10.0)), CRITERIA)


@pytest.mark.parametrize("seed", range(10))
def test_a_candidate_comes_back_from_its_row(seed: int) -> None:
    judged = select(candidates(), CRITERIA)[seed]
    row = candidate_row(judged, CRITERIA, "recipe", "reference")
    assert (row.seed, row.accepted, row.reason, row.ofo_ran) == (seed, judged.accepted, judged.reason, judged.ofo_ran)
    assert candidate_of_row(row, None, CRITERIA) == judged
