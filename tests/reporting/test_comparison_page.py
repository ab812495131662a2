"""Several libraries on one page."""

import shutil
from pathlib import Path

import pytest
from library_samples import edit_metadata
from page_reader import read_page

from scenario_lib.errors import InvalidSettingError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.reporting.comparison_page import comparison_page, short_names

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


def test_libraries_stand_side_by_side_and_differences_are_named(
    compiled_library: ScenarioLibrary, tmp_path: Path
) -> None:
    night = Path(shutil.copytree(compiled_library.path, tmp_path / "<b>night"))
    edit_metadata(night, lambda metadata: metadata["versions"].update(numpy="0.1"))
    page = comparison_page([compiled_library.path, night, OPENG2G])
    assert page.lead == "library: 2 (50%) accepted; <b>night: 2 (50%) accepted; openg2g_library_ieee13: 3 accepted."
    rows = {row[0]: row[1:] for section in page.sections for table in section.tables for row in table.rows}
    assert rows["kinds"] == ("2 under", "2 under", "3 under")
    assert rows["candidates"] == ("4", "4", "not known")
    assert rows["built with numpy (differs)"][1:] == ("0.1", "not stated")
    assert rows["engines"] == ("compiled", "compiled", "not stated")
    assert rows["files and draws"] == ("held", "held", "cannot be verified")
    assert len(rows["traces.npz (SHA-256)"]) == 3
    assert "<b>night" in read_page(page.to_html()).text


def test_names_are_as_short_as_they_can_be_and_differ(tmp_path: Path) -> None:
    def names(*paths: str) -> list[str]:
        return short_names([tmp_path / path for path in paths])

    assert names("a/monday", "a/tuesday") == ["monday", "tuesday"]
    assert names("a/lib", "b/lib", "c/x") == ["a/lib", "b/lib", "c/x"]
    assert names("a", "a") == ["a (1)", "a (2)"]


def test_one_library_alone_is_refused(compiled_library: ScenarioLibrary) -> None:
    with pytest.raises(InvalidSettingError, match="expected at least two"):
        comparison_page([compiled_library.path])
