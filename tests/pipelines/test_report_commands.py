"""`report` and `compare`, and the page that `build` leaves behind."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from scenario_lib.pipelines import build as build_command

from scenario_lib.errors import MissingExtraError
from scenario_lib.learning.comparison import Comparison, Figures, ScenarioFigures, write_comparison
from scenario_lib.library.layout import DIGESTED
from scenario_lib.library.library import ScenarioLibrary


@pytest.fixture
def library(compiled_library: ScenarioLibrary, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compiled_library.path, tmp_path / "library"))


def test_report_writes_the_page_inside_and_leaves_the_rest_as_it_was(run, library: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in library.iterdir()}
    figures = tmp_path / "figures"
    seen = run("report", library, "--scenario", 2007, "--figures", figures)
    assert (seen.exit_code, seen.errors) == (0, "")
    assert seen.output == f"page                {library / 'report.html'}\n"
    after = {path.name: path.read_bytes() for path in library.iterdir()}
    assert "Seed 2007 (asked for)" in after.pop("report.html").decode()
    assert after == before
    names = {path.name for path in figures.iterdir()}
    assert {"verdicts.svg", "difficulty.png", "scenario-1-2007.svg", "map-1-2007.png"} <= names
    assert run("validate", library).exit_code == 0


def test_report_of_an_evaluation_elsewhere(run, tmp_path: Path) -> None:
    figures = Figures(10.0, 900.0, 0.93, 1.02, 2e6, 0.9, 0.05, 0.8, 3000.0, 4)
    write_comparison(
        tmp_path / "folder", Comparison(("none",), (ScenarioFigures(0, 7, "under", "none", figures, None),))
    )
    seen = run("report", "--evaluation", tmp_path / "folder", "--out", tmp_path / "page.html")
    assert (seen.exit_code, seen.errors) == (0, "")
    assert "Evaluation of control policies" in (tmp_path / "page.html").read_text()
    assert not (tmp_path / "folder" / "report.html").exists()


def test_an_evaluation_in_place_of_a_library_is_told_apart(run, tmp_path: Path) -> None:
    (tmp_path / "scenarios.parquet").touch()
    seen = run("report", tmp_path)
    assert seen.exit_code == 2
    assert f"{tmp_path}: is an evaluation, not a library; give it as --evaluation" in seen.errors


@pytest.mark.parametrize("arguments", [[], ["lib", "--evaluation", "folder"]])
def test_report_is_about_one_thing(run, arguments: list[str]) -> None:
    seen = run("report", *arguments)
    assert seen.exit_code == 2
    assert "Give a library, or --evaluation with a directory" in seen.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "nowhere"], "nowhere: no such directory"),
        (["report", "--evaluation", "nowhere"], "scenarios.parquet: no such file"),
        (["compare", "nowhere", "elsewhere", "--out", "page.html"], "nowhere: no such directory"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(run, arguments: list[str], message: str) -> None:
    seen = run(*arguments)
    assert seen.exit_code == 1
    assert message in seen.errors
    assert seen.errors.count("\n") == 1


def test_a_seed_that_is_not_there_writes_nothing(run, library: Path) -> None:
    seen = run("report", library, "--scenario", 8)
    assert seen.exit_code == 1
    assert "no record of seed 8" in seen.errors
    assert not (library / "report.html").exists()


def test_compare(run, library: Path, tmp_path: Path) -> None:
    other = shutil.copytree(library, tmp_path / "other")
    seen = run("compare", library, other, "--out", tmp_path / "page.html")
    assert (seen.exit_code, seen.errors) == (0, "")
    assert "library: 2 (50%) accepted; other: 2 (50%) accepted." in (tmp_path / "page.html").read_text()
    assert run("compare", library, "--out", tmp_path / "page.html").exit_code == 2


def test_build_leaves_a_page_that_no_digest_covers(run, tmp_path: Path) -> None:
    library = tmp_path / "library"
    seen = run("build", "--system", "ieee13", "--seeds", "7,1007", "--jobs", 1, "--out", library)
    assert seen.exit_code == 0, seen.errors
    assert f"page                {library / 'report.html'}" in seen.output
    assert "1 of 2 candidates accepted" in (library / "report.html").read_text()
    assert json.loads((library / "digests.json").read_text())["sha256"].keys() == set(DIGESTED)
    (library / "report.html").write_text("edited")
    assert run("validate", library).exit_code == 0


@pytest.mark.parametrize(
    ("failure", "notice"),
    [
        (MissingExtraError("pages need jinja2"), "no page was written: pages need jinja2"),
        (OSError(28, "No space left on device"), "no page was written: [Errno 28] No space left on device"),
        (KeyboardInterrupt(), "no page was written: KeyboardInterrupt"),
    ],
)
def test_a_page_that_cannot_be_written_is_a_notice(
    capsys, monkeypatch, tmp_path: Path, failure: BaseException, notice: str
) -> None:
    def fail(*_arguments, **_options):
        raise failure

    monkeypatch.setattr("scenario_lib.reporting.library_page.library_page", fail)
    assert build_command._page(tmp_path, "ieee13", None) is None
    assert capsys.readouterr() == ("", f"{notice}\n")
    assert list(tmp_path.iterdir()) == []


def test_the_extra_is_asked_for_by_name(monkeypatch) -> None:
    for package in ("scenario_lib.plotting", "scenario_lib.reporting"):
        monkeypatch.delitem(sys.modules, package, raising=False)
        with monkeypatch.context() as patch:
            patch.setattr("importlib.util.find_spec", lambda _name: None)
            with pytest.raises(MissingExtraError, match=r"pip install 'scenario-lib\[plot\]'"):
                importlib.import_module(package)


@pytest.mark.parametrize("content", ["words", "", "<!doctype html><title>mine</title>"])
def test_a_page_replaces_pages_only(run, library: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "thesis.html").write_text(content)
    other = shutil.copytree(library, tmp_path / "other")
    for arguments in (["report", library], ["compare", library, other]):
        seen = run(*arguments, "--out", tmp_path / "thesis.html")
        assert (seen.exit_code, "is no page by scenario-lib" in seen.errors) == (1, True)
    assert (tmp_path / "thesis.html").read_text() == content
    for _ in range(2):
        assert run("compare", library, other, "--out", tmp_path / "page.html").exit_code == 0
