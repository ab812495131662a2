"""The journal of a build: what was finished is there after any kill, and nothing that was not."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from measured_samples import NOTHING, accepted, measured, voltages

from scenario_lib.errors import BuildRefusedError, DataFileError, LibraryError
from scenario_lib.library.npz_store import trace_digest
from scenario_lib.screening.candidate import Candidate, StageFailure
from scenario_lib.screening.criteria import Reason
from scenario_lib.screening.journal import Journal

PLAN = {"settings": {"pv_scale_max": 2.0, "shapes": ("flat",)}, "versions": {"numpy": "2.4.6"}}
TRACES = np.random.default_rng(0).random((2, 3600))
CANDIDATES = [
    (accepted(7), TRACES),
    (measured(1007, NOTHING), None),
    (Candidate(2007, failure=StageFailure(Reason.TIMEOUT, "worker", None, "took longer than 5 s")), None),
]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal with three finished candidates."""
    journal = Journal(tmp_path / ".library.build")
    journal.start(PLAN)
    for candidate in CANDIDATES:
        journal.append(*candidate, 1.5)
    return journal


def lines_file(journal: Journal) -> Path:
    return journal.folder / "journal.jsonl"


def test_what_was_finished_comes_back(journal: Journal) -> None:
    found = Journal(journal.folder).resume(PLAN)
    digests = {7: (trace_digest(TRACES[0]), trace_digest(TRACES[1]))}
    assert found == {c.seed: replace(c, trace_digests=digests.get(c.seed)) for c, _ in CANDIDATES}
    assert all(candidate.seconds == 1.5 for candidate in found.values())
    baseline, ofo = journal.traces(7)
    assert np.array_equal(baseline, TRACES[0])
    assert np.array_equal(ofo, TRACES[1])


def test_a_journal_exists_once_its_plan_does(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert not journal.exists
    journal.start(PLAN)
    assert journal.exists
    assert journal.resume(PLAN) == {}
    journal.discard()
    assert not journal.exists
    assert list(tmp_path.iterdir()) == []


def test_starting_again_discards_what_was_there(journal: Journal) -> None:
    journal.start(PLAN)
    assert journal.resume(PLAN) == {}
    assert list((journal.folder / "traces").iterdir()) == []


@pytest.mark.parametrize("kept", [1, 30, -1])
def test_a_torn_last_line_is_as_if_its_candidate_had_not_finished(journal: Journal, kept: int) -> None:
    path = lines_file(journal)
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second + third[:kept])
    assert sorted(journal.resume(PLAN)) == [7, 1007]
    assert path.read_bytes() == first + second, "the torn line is gone, so that the next one starts on its own"
    journal.append(*CANDIDATES[2], 2.0)
    assert sorted(journal.resume(PLAN)) == [7, 1007, 2007]


def test_zeros_left_by_a_power_cut_are_a_torn_line(journal: Journal) -> None:
    with lines_file(journal).open("ab") as stream:
        stream.write(bytes(4096))
    assert sorted(journal.resume(PLAN)) == [7, 1007, 2007]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-8]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x01"),
        lambda path: np.save(path, TRACES[:1]),
        lambda path: np.save(path, TRACES[::-1]),
        lambda path: np.save(path, np.array([None]), allow_pickle=True),
    ],
)
def test_traces_unlike_their_digest_are_as_if_the_candidate_had_not_finished(journal: Journal, damage) -> None:
    damage(journal.folder / "traces" / "7.npy")
    assert sorted(journal.resume(PLAN)) == [1007, 2007]


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (
            {**PLAN, "settings": {"pv_scale_max": 1.5, "shapes": ("flat",)}},
            "settings.pv_scale_max: found 1.5, expected 2.0",
        ),
        ({**PLAN, "settings": {"pv_scale_max": 2.0, "shapes": ("peaked",)}}, "settings.shapes[0]: found 'peaked'"),
        ({**PLAN, "versions": {"numpy": "2.5.0"}}, "versions.numpy: found '2.5.0', expected '2.4.6'"),
        ({**PLAN, "full_table": True}, "full_table: found True"),
    ],
)
def test_another_plan_is_refused_naming_the_difference(journal: Journal, changed: dict, difference: str) -> None:
    before = lines_file(journal).read_bytes()
    with pytest.raises(BuildRefusedError) as caught:
        journal.resume(changed)
    assert difference in str(caught.value)
    assert "discard it with --overwrite" in str(caught.value)
    assert lines_file(journal).read_bytes() == before, "nothing is lost"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"not json", "line 2 is damaged"),
        (b"{}", "line 2 is damaged"),
        (b'{"measured":{"seed":1},"seconds":1.0,"trace_digests":null,"extra":1}', "extra"),
        (b'{"measured":{"seed":"1"},"seconds":1.0,"trace_digests":null}', "seed is '1'"),
        (b'{"measured":{"seed":1,"pv_scale":NaN},"seconds":1.0,"trace_digests":null}', "NaN is not allowed"),
        (b'{"measured":{"seed":1},"seconds":1.0,"trace_digests":["a"]}', "trace_digests"),
        (b"\xff\xfe", "line 2 is damaged"),
        (b"[" * 100_000, "line 2 is damaged"),
    ],
)
def test_a_damaged_line_is_named_with_the_remedy(journal: Journal, line: bytes, text: str) -> None:
    path = lines_file(journal)
    first, _, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + b"\n" + third)
    with pytest.raises(LibraryError) as caught:
        journal.resume(PLAN)
    assert str(caught.value).startswith(f"{path}: line 2 is damaged")
    assert text in str(caught.value)
    assert "remove that line to measure its candidate again" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"settings": NaN}'])
def test_a_damaged_plan_is_refused(journal: Journal, content: bytes) -> None:
    (journal.folder / "plan.json").write_bytes(content)
    with pytest.raises((LibraryError, BuildRefusedError)) as caught:
        journal.resume(PLAN)
    assert str(journal.folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_is_written_after_its_traces_and_stays_on_one_line(journal: Journal) -> None:
    failure = StageFailure(Reason.ERROR, "ofo", None, "two\nlines and ü")
    finished = journal.append(Candidate(3007, failure=failure), None, 0.1)
    assert (finished, finished.seconds) == (Candidate(3007, failure=failure), 0.1)
    last = lines_file(journal).read_bytes().splitlines()[-1]
    assert json.loads(last)["measured"]["failure"]["message"] == "two\nlines and ü"
    assert journal.resume(PLAN)[3007].failure == failure


def test_figures_that_are_no_numbers_are_not_written(journal: Journal) -> None:
    before = lines_file(journal).read_bytes()
    with pytest.raises(DataFileError, match="finite numbers only"):
        journal.append(measured(3007, voltages(float("nan"))), None, 1.0)
    assert lines_file(journal).read_bytes() == before
