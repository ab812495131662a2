"""A lock is held by one at a time, also while its file comes and goes."""

import threading
from pathlib import Path

import pytest

from scenario_lib._files import exclusive


def test_the_file_is_gone_when_it_is_done(tmp_path: Path) -> None:
    with exclusive(tmp_path / "a" / "lock"):
        assert (tmp_path / "a" / "lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_what_was_put_beside_it_stays(tmp_path: Path) -> None:
    with exclusive(tmp_path / "a" / "b" / "lock"):
        (tmp_path / "a" / "b" / "file").write_text("content")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file"]


def test_one_at_a_time(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock"), pytest.raises(BlockingIOError), exclusive(tmp_path / "lock"):
        pass
    with exclusive(tmp_path / "lock"):
        pass


def test_an_empty_file_that_an_older_version_left_is_taken(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    with exclusive(tmp_path / "lock"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_many_that_try_all_the_time_never_hold_it_together(tmp_path: Path) -> None:
    inside: list[int] = []
    most, held = 0, 0

    def try_often(number: int) -> None:
        nonlocal most, held
        for _ in range(300):
            try:
                with exclusive(tmp_path / "lock"):
                    inside.append(number)
                    most, held = max(most, len(inside)), held + 1
                    inside.remove(number)
            except BlockingIOError:
                continue

    threads = [threading.Thread(target=try_often, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert held > 300
