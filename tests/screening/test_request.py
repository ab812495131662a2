"""Which candidates a build tries, and where it writes: checked before anything starts."""

from pathlib import Path

import pytest

from scenario_lib.errors import InvalidSettingError
from scenario_lib.screening.request import BuildOptions, CandidateRequest


def test_a_number_of_candidates_is_numbered_as_by_openg2g() -> None:
    request = CandidateRequest(candidates=3, seed_start=5)
    assert list(request.seed_order()) == [5007, 6007, 7007]
    assert request.most_candidates == 3


def test_a_list_of_seeds_is_tried_in_rising_order() -> None:
    request = CandidateRequest(seeds=(3007, 7, 1007))
    assert list(request.seed_order()) == [7, 1007, 3007]
    assert request.most_candidates == 3


def test_a_number_to_accept_has_a_brake() -> None:
    assert CandidateRequest(accept=2).most_candidates == 200
    request = CandidateRequest(accept=2, max_candidates=4, seed_start=1)
    assert request.most_candidates == 4
    assert list(request.seed_order()) == [1007, 2007, 3007, 4007]


def test_a_list_of_seeds_may_go_with_a_number_to_accept() -> None:
    request = CandidateRequest(seeds=(9, 5, 7), accept=1)
    assert list(request.seed_order()) == [5, 7, 9]
    assert list(CandidateRequest(seeds=(9, 5, 7), accept=1, max_candidates=2).seed_order()) == [5, 7]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "found none; expected a number of candidates"),
        ({"candidates": 3, "accept": 2}, "found candidates and accept"),
        ({"candidates": 3, "seeds": (7,)}, "found candidates and seeds"),
        ({"candidates": 3, "accept": 2, "seeds": (7,)}, "found candidates and accept and seeds"),
        ({"candidates": 0}, "candidates is 0; expected at least 1"),
        ({"candidates": -1}, "candidates is -1"),
        ({"candidates": 2.5}, "candidates is 2.5; expected a whole number"),
        ({"accept": True}, "accept is True; expected a whole number"),
        ({"accept": 0}, "accept is 0"),
        ({"candidates": 3, "max_candidates": 5}, "max_candidates is 5; expected to be given together with accept"),
        ({"accept": 3, "max_candidates": 0}, "max_candidates is 0"),
        ({"candidates": 3, "seed_start": -1}, "seed_start is -1; expected at least 0"),
        ({"seeds": ()}, r"seeds is \(\); expected at least one seed"),
        ({"seeds": (7, 7)}, r"twice: 7"),
        ({"seeds": (7, -1)}, "seeds is -1; expected at least 0"),
        ({"seeds": (7, 1.5)}, "seeds is 1.5; expected a whole number"),
        ({"seeds": (2**63,)}, "seeds is 9223372036854775808; expected at most 9223372036854775807"),
        ({"candidates": 2, "seed_start": 2**63 // 1000}, "seed_start is 9223372036854775; expected"),
    ],
)
def test_requests_are_checked(request_: dict, text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text):
        CandidateRequest(**request_)


def test_the_largest_seed_is_allowed() -> None:
    assert list(CandidateRequest(seeds=(2**63 - 1,)).seed_order()) == [2**63 - 1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"jobs": 0}, "jobs is 0; expected at least 1"),
        ({"jobs": 1.5}, "jobs is 1.5; expected a whole number"),
        ({"timeout_s": 0}, "timeout_s is 0; expected more than 0"),
        ({"timeout_s": float("nan")}, "timeout_s is nan; expected a finite number"),
    ],
)
def test_build_options_are_checked(options: dict, text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text):
        BuildOptions(Path("out"), **options)
