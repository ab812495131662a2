"""The documentation builds into HTML without a warning, and without a network."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_pages_and_docstrings_become_html_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="needs the extra 'docs'")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "doctrees")]
    done = subprocess.run([*build, str(DOCS), str(tmp_path / "html")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in DOCS.glob("*.md"):
        assert "<h1>" in (tmp_path / "html" / f"{page.stem}.html").read_text(encoding="utf-8")
    assert "scenario_lib.ScenarioLibrary.materialize" in (tmp_path / "html" / "api.html").read_text(encoding="utf-8")
