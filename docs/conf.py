"""How the documentation is built: `scripts/docs` makes HTML out of these pages and of the docstrings."""

from importlib import metadata
from typing import Any

from pygments.lexers.special import TextLexer

project = "scenario-lib"
author = "the scenario-lib developers"
release = metadata.version("scenario-lib")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"scenario-lib {release}"

myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True, "show-inheritance": False, "exclude-members": "__new__"}
napoleon_google_docstring = True
napoleon_use_ivar = True
# Links to other projects would need their inventories from the network.
nitpicky = False
# Several classes have a field of one name, such as `candidates`; Sphinx looks for the one whose type is told.
suppress_warnings = ["ref.python"]
# Their absence must not change the reference.
autodoc_mock_imports = ["pettingzoo", "stable_baselines3", "torch"]


def keep_tables(lines: list[str]) -> list[str]:
    """A docstring with its tables, which are drawn with bars, as literal blocks."""
    kept: list[str] = []
    for line in lines:
        in_table = line.lstrip().startswith("|")
        if in_table and not kept[-1].lstrip().startswith("|"):
            kept += ["::", ""]
        kept.append(f"   {line}" if in_table else line)
    return kept


def setup(app: Any) -> None:
    """Called by Sphinx."""

    def process(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
        lines[:] = keep_tables(lines)

    app.connect("autodoc-process-docstring", process)
    app.add_lexer("dss", TextLexer)  # OpenDSS has no highlighting of its own
