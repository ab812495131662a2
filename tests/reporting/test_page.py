"""Pages: whole, escaped, equal when their content is, and written at once or not at all."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from page_reader import read_page

from scenario_lib.errors import MissingDataError
from scenario_lib.plotting.panels import house_style, new_figure
from scenario_lib.reporting.page import Page, Picture, Section, Table, write_page

HOSTILE = "<script>alert(1)</script>\"><img src=x onerror='alert(2)'>&amp;{{ page }}"


def figure() -> Figure:
    with house_style():
        empty = new_figure(1)
        empty.add_subplot()
    return empty


def page_of(text: str) -> Page:
    table = Table(text, (text, text), ((text, text),))
    folded = Table(text, (text,), ((text,),), folded=True)
    picture = Picture("one", figure(), f"{text}: a picture of nothing", text)
    part = Section(text, (text,), (table,), (Picture("two", figure(), f"{text}: another picture", text),))
    section = Section("First part", (text,), (table, folded), (picture,), (part,), verdict="bad")
    return Page(text, text, (section, Section("Second part", (text,))))


def test_hostile_texts_are_texts_wherever_they_stand() -> None:
    page = read_page(page_of(HOSTILE).to_html())
    assert len(page.all("img")) == 2
    assert page.text.count("<script>alert(1)</script>") == 23
    assert "{{ page }}" in page.text


def test_a_page_has_a_title_a_language_and_forbids_whatever_is_not_inside() -> None:
    page = read_page(page_of("A title").to_html())
    assert page.all("html") == [{"lang": "en"}]
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert [link["href"] for link in page.all("a")] == ["#first-part", "#second-part"]
    assert {cell.get("scope") for cell in page.all("th")} == {"col", "row"}


def test_equal_content_is_equal_bytes() -> None:
    assert page_of("same").to_html() == page_of("same").to_html()


def test_figures_are_written_beside_as_svg_and_png(tmp_path: Path) -> None:
    write_page(tmp_path / "deep" / "page.html", page_of("text"), tmp_path / "figures")
    names = ["one.png", "one.svg", "two.png", "two.svg"]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == names
    assert (tmp_path / "figures" / "one.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["page.html"]


def test_a_page_that_cannot_be_made_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_page(target, page_of("old"))
    before = target.read_bytes()
    broken = Page("new", "new", (Section("Part", pictures=("no picture",)),))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="no attribute"):
        write_page(target, broken)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingDataError, match="file/folder: cannot be made"):
        write_page(tmp_path / "file" / "folder" / "page.html", page_of("text"))
