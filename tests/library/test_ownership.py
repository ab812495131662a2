"""Only a library with nothing but its own files is replaced, and no place within what is read is taken."""

import json
import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from scenario_lib.errors import BuildRefusedError
from scenario_lib.library.combine import export_recipe, merge_libraries
from scenario_lib.library.convert import convert_library
from scenario_lib.library.place import (
    claimed,
    require_leftover,
    require_outside_libraries,
    require_place,
    require_replaceable,
)
from scenario_lib.library.split import Parts, split_library

PARTS = Parts({"train": Fraction(1, 2), "test": Fraction(1, 2)}, are_counts=False)
WRITERS: dict[str, Callable[[Path, Path], object]] = {
    "convert": lambda source, out: convert_library(source, "sharded", out, overwrite=True),
    "export": lambda source, out: export_recipe(source, None, out, overwrite=True),
    "merge": lambda source, out: merge_libraries([source, source], out, overwrite=True),
    "split": lambda source, out: split_library(source, out, PARTS, overwrite=True),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that is below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def write(path: Path, content: str = "mine") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


# What somebody may have in a folder that looks like a library, by what is to be named in the refusal.
NOT_LIBRARIES: dict[str, dict[str, str]] = {
    "thesis.txt": {"metadata.json": "{}", "thesis.txt": "mine"},
    "metadata.json": {"metadata.json": "{}"},
    "traces.npz": {"metadata.json": "{}", "traces.npz": "not ours"},
    "digests.json": {"metadata.json": "{}", "digests.json": "{}"},
    "a.txt": {"metadata.json": "{}", "digests.json": "not JSON", "a.txt": "mine"},
    "notes": {"digests.json": json.dumps({"format_version": 2, "sha256": {"notes": ""}}), "notes": "mine"},
    "b.txt": {"digests.json": json.dumps({"format_version": 3, "sha256": {"metadata.json": ""}}), "b.txt": "mine"},
    "data.csv": {"metadata.json": '{"config": {}, "scenarios": []}', "data.csv": "mine"},
    "src": {"src/main.py": "mine", "metadata.json": "{}"},
    ".git": {".git/HEAD": "mine"},
}


@writers
@pytest.mark.parametrize("named", NOT_LIBRARIES)
def test_what_is_no_library_is_never_replaced(library_path: Path, tmp_path: Path, write, named: str) -> None:
    out = tmp_path / "out"
    for name, content in NOT_LIBRARIES[named].items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(content)
    before = tree(tmp_path)
    with pytest.raises(BuildRefusedError, match="is not a library, and is never overwritten") as caught:
        write(library_path, out)
    assert named in str(caught.value)
    assert tree(tmp_path) == before


STRANGERS = ["thesis.txt", "report.pdf", ".DS_Store", "shard-1.arrow", "records.arrow", "traces.npz.bak", "notes/a.txt"]


@pytest.mark.parametrize("stranger", [*STRANGERS, "report.html/a.txt"])
def test_a_library_with_somebody_elses_file_is_never_replaced(library_path: Path, stranger: str) -> None:
    write(library_path / stranger)
    with pytest.raises(BuildRefusedError, match="did not write") as caught:
        require_replaceable(library_path)
    assert stranger.split("/", maxsplit=1)[0] in str(caught.value)


@pytest.mark.parametrize("link_to", ["elsewhere", "nowhere"])
def test_a_link_is_somebody_elses(library_path: Path, tmp_path: Path, link_to: str) -> None:
    write(tmp_path / "elsewhere")
    (library_path / "report.html").symlink_to(tmp_path / link_to)
    with pytest.raises(BuildRefusedError, match=r"report\.html"):
        require_replaceable(library_path)


def test_a_few_are_named_and_the_others_counted(library_path: Path) -> None:
    for number in range(40):
        write(library_path / f"n{number:02}.txt")
    with pytest.raises(BuildRefusedError, match=r"\(n00\.txt, n01\.txt, .*, n07\.txt and 32 more\)"):
        require_replaceable(library_path)


@pytest.mark.parametrize("own", ["report.html", "build-log.json", ".metadata.json.4711.tmp"])
def test_what_we_write_beside_a_library_goes_with_it(library_path: Path, own: str) -> None:
    write(library_path / own)
    require_replaceable(library_path)


def test_a_library_by_openg2gs_example_is_replaceable_if_nothing_else_is_there(openg2g_path: Path) -> None:
    require_replaceable(openg2g_path)
    write(openg2g_path / "plot.png")
    with pytest.raises(BuildRefusedError, match=r"plot\.png"):
        require_replaceable(openg2g_path)


def spellings(library: Path) -> dict[str, Path]:
    """Places that are, hold, or lie in a library, spelt in many ways."""
    link = library.parent / "link"
    link.symlink_to(library)
    (library.parent / "up").symlink_to(library.parent)
    return {
        "itself": library,
        "relative": Path(os.path.relpath(library)),
        "trailing slash": Path(f"{library}/"),
        "dots": library / "sub" / ".." / ".." / library.name,
        "a link to it": link,
        "by way of a link": library.parent / "up" / library.name,
        "inside": library / "sub",
        "deep inside": library / "a" / "b" / "c",
        "inside by a link": link / "sub",
        "around it": library.parent,
    }


NAMES = ("itself", "relative", "trailing slash", "dots", "a link to it", "by way of a link")
INSIDE = ("inside", "deep inside", "inside by a link", "around it")


@writers
@pytest.mark.parametrize("spelling", [*NAMES, *INSIDE])
def test_what_is_read_is_never_taken(library_path: Path, tmp_path: Path, write, spelling: str) -> None:
    out = spellings(library_path)[spelling]
    before = tree(tmp_path)
    with pytest.raises(BuildRefusedError, match="which is read|inside the library"):
        write(library_path, out)
    assert tree(tmp_path) == before


@writers
def test_a_place_in_another_library_is_not_taken_either(library_path: Path, tmp_path: Path, write) -> None:
    other = Path(shutil.copytree(library_path, tmp_path / "other"))
    with pytest.raises(BuildRefusedError, match=f"inside the library {other}"):
        write(library_path, other / "sub")
    require_replaceable(other)


@pytest.mark.parametrize("suffix", ["new", "replaced"])
def test_a_source_may_not_lie_where_work_is_in_progress(library_path: Path, tmp_path: Path, suffix: str) -> None:
    source = library_path.rename(tmp_path / f".out.{suffix}")
    with pytest.raises(BuildRefusedError, match="which is read"):
        require_place(tmp_path / "out", True, [source])


@writers
def test_a_hidden_place_with_somebody_elses_files_stays(library_path: Path, tmp_path: Path, write) -> None:
    (tmp_path / ".out.new").mkdir()
    (tmp_path / ".out.new" / "thesis.txt").write_text("mine")
    with pytest.raises(BuildRefusedError, match=r"\.out\.new.*thesis\.txt"):
        write(library_path, tmp_path / "out")
    assert (tmp_path / ".out.new" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "link", "link to nothing"])
def test_what_is_in_the_way_of_work_in_progress_is_not_removed(tmp_path: Path, kind: str) -> None:
    place = tmp_path / ".out.new"
    (tmp_path / "folder").mkdir()
    if kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / ("folder" if kind == "link" else "nothing"))
    with pytest.raises(BuildRefusedError, match="in the way"):
        require_leftover(place)


def test_files_that_come_while_a_library_is_written_are_kept(library_path: Path, tmp_path: Path, monkeypatch) -> None:
    out = Path(shutil.copytree(library_path, tmp_path / "out"))
    monkeypatch.setattr("scenario_lib.library.place.sync_directory", lambda _: write(out / "thesis.txt"))
    with pytest.raises(BuildRefusedError, match=r"thesis\.txt"):
        export_recipe(library_path, None, out, overwrite=True)
    assert (out / "thesis.txt").read_text() == "mine"


def test_a_split_replaces_a_split_but_no_folder_of_other_libraries(library_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    WRITERS["split"](library_path, out)
    WRITERS["split"](library_path, out)
    shutil.copytree(library_path, out / "mine")
    before = tree(out)
    with pytest.raises(BuildRefusedError, match="mine"):
        WRITERS["split"](library_path, out)
    assert tree(out) == before


@writers
def test_a_finished_command_leaves_its_library_only(library_path: Path, tmp_path: Path, write) -> None:
    write(library_path, tmp_path / "a" / "out")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_a_refused_claim_leaves_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(BuildRefusedError), claimed(tmp_path / "a" / "b" / "out"):
        raise BuildRefusedError("no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["somebody's file", "link", "pipe"])
def test_a_lock_never_removes_what_has_its_name(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / ".out.lock"
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "link":
        lock.symlink_to(tmp_path / "elsewhere")
    else:
        lock.write_text("mine")
    with pytest.raises(BuildRefusedError, match=r"\.out\.lock"), claimed(tmp_path / "out"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [".out.lock"]


@pytest.mark.parametrize("inside", ["file", "sub/file", "a/b/file"])
def test_nothing_is_written_into_a_library_but_beside_it(library_path: Path, tmp_path: Path, inside: str) -> None:
    require_outside_libraries(tmp_path / inside)
    with pytest.raises(BuildRefusedError, match="inside the library"):
        require_outside_libraries(library_path / inside)


def test_a_link_to_itself_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("out")
    with pytest.raises(BuildRefusedError, match="is no place for a library"):
        require_place(tmp_path / "out", overwrite=True)
