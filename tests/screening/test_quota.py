"""Quotas by kind: what is asked for, what is judged, whatever the order."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_samples import NOTHING, measured, voltages

from scenario_lib.errors import InvalidSettingError
from scenario_lib.screening.candidate import Candidate
from scenario_lib.screening.criteria import KINDS, Reason, ScreeningCriteria
from scenario_lib.screening.request import CandidateRequest, Goal, Quota
from scenario_lib.screening.select import Selection, select, shortfalls

CRITERIA = ScreeningCriteria(max_always_min=2)
TIMES = {"under": (100.0, 0.0), "over": (0.0, 100.0), "mixed": (100.0, 30.0)}


def candidate(seed: int, kind: str | None, recovery: float = 0.9, always_min: bool = False) -> Candidate:
    if kind is None:
        return measured(seed, NOTHING)
    times = TIMES[kind]
    return measured(seed, voltages(10.0, *times), voltages(10.0 * (1 - recovery), *times), ofo_always_min=always_min)


candidates = st.lists(
    st.tuples(st.sampled_from([*KINDS, None]), st.sampled_from([0.5, 0.9]), st.booleans()), max_size=40
).map(lambda drawn: [candidate(seed, *values) for seed, values in enumerate(drawn)])
quotas = st.builds(Quota, st.integers(0, 4), st.integers(0, 4), st.integers(1, 4))
goals = st.one_of(quotas.map(lambda quota: Goal(quota=quota)), st.integers(1, 9).map(Goal), st.just(Goal()))


@given(candidates, goals, st.randoms(use_true_random=False))
def test_the_order_of_finishing_never_matters(found, goal, shuffler) -> None:
    shuffled = list(found)
    shuffler.shuffle(shuffled)
    assert select(shuffled, CRITERIA, goal) == select(found, CRITERIA, goal)


@given(candidates, goals)
def test_later_candidates_never_change_earlier_verdicts(found, goal) -> None:
    whole = select(found, CRITERIA, goal)
    for count in range(len(found)):
        assert select(found[:count], CRITERIA, goal) == whole[:count]


@given(candidates, quotas)
def test_never_more_than_the_quota_and_what_lacks_is_said(found, quota) -> None:
    judged = select(found, CRITERIA, Goal(quota=quota))
    kinds = Counter(each.kind for each in judged if each.accepted)
    short = [f"{kinds[kind]} of {wanted} {kind}" for kind, wanted in quota.to_dict().items() if kinds[kind] < wanted]
    assert all(kinds[kind] <= wanted for kind, wanted in quota.to_dict().items())
    assert shortfalls(judged, Goal(quota=quota)) == short
    if not short and judged:
        assert judged[-1].accepted, "it ends where the last record wanted is found"
    if len(judged) < len(found):
        assert short == []


def test_the_first_of_each_kind_are_kept_and_the_rest_has_a_reason() -> None:
    kinds = ["under", "over", "under", "mixed", "under", None, "mixed"]
    judged = select([candidate(s, k) for s, k in enumerate(kinds)], CRITERIA, Goal(quota=Quota(under=2, mixed=2)))
    assert [each.reason for each in judged] == [
        Reason.ACCEPTED,
        Reason.KIND_NOT_WANTED,
        Reason.ACCEPTED,
        Reason.ACCEPTED,
        Reason.QUOTA_FULL,
        Reason.NO_VIOLATION,
        Reason.ACCEPTED,
    ]


def test_trivial_ones_beyond_a_quota_do_not_use_up_the_cap() -> None:
    kinds = ["under", "under", "under", "over", "over"]
    found = [candidate(seed, kind, always_min=True) for seed, kind in enumerate(kinds)]
    judged = select(found, CRITERIA, Goal(quota=Quota(under=1, over=2)))
    assert [str(each.reason) for each in judged] == [
        "accepted",
        "quota_full",
        "quota_full",
        "accepted",
        "always_min_cap",
    ]


def test_what_is_not_wanted_needs_no_ofo_rollout() -> None:
    selection = Selection(CRITERIA, Goal(quota=Quota(over=1)))
    assert selection.judge(measured(0, voltages(10.0))).reason is Reason.KIND_NOT_WANTED
    assert selection.judge(measured(1, voltages(0.1))).reason is Reason.BASELINE_BELOW_FLOOR
    with pytest.raises(LookupError, match="seed 2 needs its OFO rollout"):
        selection.judge(measured(2, voltages(10.0, 0.0, 100.0)))


def test_a_request_with_a_quota() -> None:
    quota = Quota(under=200, mixed=50)
    request = CandidateRequest(quota=quota)
    assert (request.goal.total, request.goal.kinds, request.most_candidates) == (250, ("under", "mixed"), 25_000)
    assert CandidateRequest(quota=quota, max_candidates=10).most_candidates == 10
    assert CandidateRequest(quota=quota, seeds=(7, 9)).most_candidates == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quota": Quota(under=1), "accept": 3}, "found accept and quota; expected a number of candidates, or"),
        ({"quota": Quota(under=1), "candidates": 3}, "found candidates and quota"),
        ({"candidates": 3, "max_candidates": 5}, "to be given together with accept or quota"),
    ],
)
def test_a_quota_goes_with_no_other_goal(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        CandidateRequest(**arguments)
    assert message in str(caught.value)


def test_a_quota_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="at least one record of one kind"):
        Quota()
    with pytest.raises(InvalidSettingError, match="quota over is -1"):
        Quota(under=1, over=-1)
