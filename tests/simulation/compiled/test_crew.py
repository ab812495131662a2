"""Threads that wait for work."""

import gc
import threading

import pytest

from scenario_lib.simulation.compiled.batch import ThreadTeam


def test_every_job_is_done_once_in_a_thread_of_its_own() -> None:
    crew, seen = ThreadTeam(2), []
    meeting = threading.Barrier(3, timeout=10)

    def job(name: str) -> None:
        meeting.wait()
        seen.append((name, threading.get_ident()))

    for _ in range(5):
        seen.clear()
        crew.run([lambda name=name: job(name) for name in "abc"])
        assert sorted(name for name, _ in seen) == ["a", "b", "c"]
        assert len({thread for _, thread in seen}) == 3
        assert dict(seen)["a"] == threading.get_ident()


def test_what_a_job_raises_is_raised_and_work_goes_on() -> None:
    crew, done = ThreadTeam(1), []

    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        crew.run([lambda: done.append(1), fail])
    with pytest.raises(ValueError, match="wrong"):
        crew.run([fail, lambda: done.append(2)])
    crew.run([lambda: done.append(3), lambda: done.append(4)])
    assert sorted(done) == [1, 2, 3, 4]


def test_alone_no_thread_is_started() -> None:
    before = set(threading.enumerate())
    crew, done = ThreadTeam(0), []
    crew.run([lambda: done.append(1)])
    ThreadTeam(3)
    assert done == [1]
    assert set(threading.enumerate()) <= before


def test_threads_end_with_their_crew() -> None:
    before = set(threading.enumerate())
    crew = ThreadTeam(2)
    crew.run([lambda: None] * 3)
    started = set(threading.enumerate()) - before
    assert len(started) == 2
    del crew
    gc.collect()
    for thread in started:
        thread.join(timeout=10)
        assert not thread.is_alive()
