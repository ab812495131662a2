"""A build starts only where it may: nothing of anybody's is overwritten, and nobody else builds there."""

import multiprocessing
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from scenario_lib.errors import BuildRefusedError, UnwritableFileError
from scenario_lib.library.writer import write_digests
from scenario_lib.screening.journal import Workspace
from scenario_lib.screening.request import BuildOptions, CandidateRequest, Quota

TEN = CandidateRequest(candidates=10)


def check(out: Path, request: CandidateRequest = TEN, **options: bool) -> None:
    workspace = Workspace(out)
    with workspace.claimed():
        workspace.require_free(BuildOptions(out, **options), [request])


def as_library(folder: Path) -> Path:
    folder.mkdir()
    (folder / "metadata.json").write_text("{}")
    write_digests(folder, ["metadata.json"])
    return folder


def refusal(out: Path, **options) -> str:
    with pytest.raises(BuildRefusedError) as caught:
        check(out, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_new_place_is_free_and_its_parents_are_made(tmp_path: Path) -> None:
    check(tmp_path / "a" / "b" / "library")
    assert not (tmp_path / "a" / "b" / "library").exists()


def test_an_existing_library_needs_overwrite(tmp_path: Path) -> None:
    out = as_library(tmp_path / "library")
    assert refusal(out) == f"{out}: exists already; replace it with --overwrite, or choose another --out"
    assert "exists already" in refusal(out, resume=True)
    check(out, overwrite=True)


def test_what_is_not_a_library_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter1.txt").write_text("two years of work")
    assert "exists already" in refusal(out)
    assert "is not a library, and is never overwritten" in refusal(out, overwrite=True)
    assert (out / "chapter1.txt").read_text() == "two years of work"


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "library").write_text("text")
    assert "is not a library, and is never overwritten" in refusal(tmp_path / "library", overwrite=True)


def test_an_empty_directory_may_be_overwritten(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    assert "exists already" in refusal(tmp_path / "library")
    check(tmp_path / "library", overwrite=True)


def test_the_place_for_a_library_that_accepts_nothing_must_be_free_too(tmp_path: Path) -> None:
    out = as_library(tmp_path / "library")
    (tmp_path / "library.rejected").mkdir()
    (tmp_path / "library.rejected" / "notes").write_text("mine")
    assert "library.rejected: is not a library" in refusal(out, overwrite=True)


def test_an_unfinished_build_needs_resume_or_overwrite(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "library")
    workspace.journal.start({})
    message = refusal(tmp_path / "library")
    assert f"{workspace.journal.folder}: an unfinished build is there" in message
    assert "continue it with --resume, or discard it with --overwrite" in message
    check(tmp_path / "library", resume=True)
    check(tmp_path / "library", overwrite=True)


@pytest.fixture
def free_mb(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    usage = namedtuple("usage", "total used free")

    def leave(size_mb: float) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**15, 10**9, int(size_mb * 1e6)))

    return leave


@pytest.mark.parametrize(
    ("request_", "need_mb"),
    [
        ({"candidates": 100}, 7),
        ({"candidates": 1_000_000}, 65_792),
        ({"accept": 10_000}, 1316),
        ({"accept": 100_000}, 13_158),
        ({"accept": 100_000, "max_candidates": 1000}, 66),
        ({"quota": Quota(under=10_000)}, 1316),
        ({"seeds": tuple(range(100))}, 7),
    ],
)
def test_a_disk_too_small_for_what_is_likely_is_refused_before_anything_starts(
    tmp_path: Path, free_mb, request_: dict, need_mb: int
) -> None:
    request = CandidateRequest(**request_)
    free_mb(need_mb * 1.01 + 1)
    check(tmp_path / "library", request)
    free_mb(need_mb / 2)
    message = refusal(tmp_path / "library", request=request)
    assert f"{need_mb} MB are likely to be needed for {request.likely_candidates} candidates" in message
    assert f"with {request.likely_records} accepted; at most about" in message
    assert "--max-candidates" in message


def test_an_unfinished_build_goes_on_and_the_disk_is_watched_instead(tmp_path: Path, free_mb) -> None:
    workspace = Workspace(tmp_path / "library")
    workspace.journal.start({})
    free_mb(1)
    check(tmp_path / "library", resume=True)
    workspace.require_room(candidates=10, records=5)
    with (
        pytest.raises(UnwritableFileError, match=r"needed to write the library; .* go on with --resume") as caught,
        workspace.resumable(),
    ):
        workspace.require_room(candidates=100, records=50)
    assert str(workspace.journal.folder) in str(caught.value)


@pytest.mark.parametrize("name", ["file/library", "file/a/library"])
def test_a_parent_that_is_a_file_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("text")
    assert "cannot write beside it" in refusal(tmp_path / name)


def test_the_root_and_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert "choose another --out" in refusal(Path("/"))
    assert "choose another --out" in refusal(tmp_path / ("x" * 300))


def test_a_link_is_followed_so_that_the_link_stays(tmp_path: Path) -> None:
    real = as_library(tmp_path / "real")
    (tmp_path / "link").symlink_to(real)
    assert Workspace(tmp_path / "link").target == real
    assert "exists already" in refusal(tmp_path / "link")


def test_a_second_build_in_this_process_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "library"
    with Workspace(out).claimed():
        assert "another build is writing there" in refusal(out)
        check(tmp_path / "other")
    check(out)


def _hold(out: Path, held, release) -> None:
    with Workspace(out).claimed():
        held.set()
        release.wait(30)


def test_a_second_build_of_another_process_is_refused_until_that_dies(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path / "library", held, release))
    other.start()
    try:
        assert held.wait(30)
        assert "another build is writing there; wait for it, or choose another --out" in refusal(tmp_path / "library")
    finally:
        other.kill()
        other.join()
    check(tmp_path / "library")


def test_the_finished_directory_is_emptied(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "library")
    (workspace.empty_finished() / "metadata.json").write_text("by a killed build")
    assert list(workspace.empty_finished().iterdir()) == []


def test_an_error_inside_the_block_is_not_taken_for_a_refusal(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "library")
    with pytest.raises(PermissionError, match="of the block"), workspace.claimed():
        raise PermissionError("of the block")
    check(tmp_path / "library")
