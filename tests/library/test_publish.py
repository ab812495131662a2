"""A finished directory takes its place in one step, or nothing changes."""

import os
from pathlib import Path

import pytest

from scenario_lib.library import place as module
from scenario_lib.library.layout import DIGESTS, METADATA
from scenario_lib.library.place import publish

OURS = '{"format_version": 2, "sha256": {"metadata.json": ""}}'


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    folder = tmp_path / ".lib.new"
    folder.mkdir()
    (folder / METADATA).write_text("new")
    return folder


@pytest.fixture
def existing(tmp_path: Path) -> Path:
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / METADATA).write_text("old")
    (folder / DIGESTS).write_text(OURS)
    return folder


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_new_place(finished: Path, tmp_path: Path) -> None:
    publish(finished, tmp_path / "lib")
    assert content(tmp_path / "lib") == {METADATA: "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["lib"]


def test_an_exchange_leaves_nothing_beside(finished: Path, existing: Path, tmp_path: Path) -> None:
    publish(finished, existing)
    assert content(existing) == {METADATA: "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["lib"]


def test_where_directories_cannot_be_exchanged_two_renames_do(
    finished: Path, existing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_exchange", lambda *_: False)
    publish(finished, existing)
    assert content(existing) == {METADATA: "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["lib"]


def test_a_reader_that_looks_all_the_time_sees_old_or_new(
    finished: Path, existing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    exchange = module._exchange

    def watched(first: Path, second: Path) -> bool:
        seen.append(content(second)[METADATA])
        exchanged = exchange(first, second)
        seen.append(content(second)[METADATA])
        return exchanged

    monkeypatch.setattr(module, "_exchange", watched)
    publish(finished, existing)
    assert seen == ["old", "new"]


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="only Linux exchanges directories")
def test_this_system_exchanges(finished: Path, existing: Path) -> None:
    assert module._exchange(finished, existing) is True
    assert content(existing) == {METADATA: "new"}
    assert content(finished) == {METADATA: "old", DIGESTS: OURS}


def test_when_the_second_rename_fails_the_old_library_is_back(
    finished: Path, existing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_exchange", lambda *_: False)
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self == finished:
            raise OSError("the disk is gone")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="the disk is gone"):
        publish(finished, existing)
    monkeypatch.undo()
    assert content(existing) == {METADATA: "old", DIGESTS: OURS}
