"""Every block of code in the documentation runs, page by page, in the order in which a reader meets it.

A page runs in an empty folder in which `data` and `benchmarks` are those of the repository. What its blocks do:

- `sh`: a shell script, which must succeed; commands are those of the environment that the tests run in.
- `python`: a statement or several; the names of one block are there in the next ones of the page.
- a block whose first line is a comment like `# file: my/experiment.toml` is written to that file.

Commands are forks of one process that has all modules loaded (`preloaded.py`), and see one core. Only the README's
builds draw pages: drawing takes longer than building, and once is enough to know that it works.

Blocks that take minutes stand under the comment `skip: next if(not long, ...)`; `scripts/docs --run` runs them too.
Those that need an extra stand under `skip: next if(not have("its module"), ...)`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from unittest import SkipTest

import pytest
from preloaded import NO_PAGES, preloaded_command
from sybil import Document, Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
LONG = "SCENARIO_LIB_LONG_DOCS"
FILE_MARKS = ("# file: ", "! file: ")


def run_shell(example: Example) -> None:
    folders = [*example.namespace.get("commands", ()), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", example.parsed],
        env={**os.environ, "PATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{example.parsed}\n{done.stdout}\n{done.stderr}"


def write_file(example: Example) -> None:
    first, _, content = example.parsed.partition("\n")
    mark = next((mark for mark in FILE_MARKS if first.startswith(mark)), None)
    if mark is not None:
        path = Path(first.removeprefix(mark))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def run_python(example: Example) -> None:
    write_file(example)
    PythonEvaluator()(example)


def parsed(page: Path) -> Document:
    parsers = (
        CodeBlockParser(language="python", evaluator=run_python),
        CodeBlockParser(language="sh", evaluator=run_shell),
        CodeBlockParser(language="toml", evaluator=write_file),
        CodeBlockParser(language="dss", evaluator=write_file),
        SkipParser(),
    )
    return Sybil(parsers=parsers).parse(page)


def evaluated(document: Document) -> int:
    """Run the blocks of a page; returns how many ran."""
    ran = 0
    for example in document.examples():
        try:
            example.evaluate()
        except SkipTest:
            continue
        ran += 1
    return ran


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with preloaded_command(tmp_path_factory.mktemp("commands")) as folder:
        yield folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page: Path, commands: Path, tmp_path: Path, monkeypatch) -> None:
    for folder in ("data", "benchmarks"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    document = parsed(page)
    document.namespace |= {"long": LONG in os.environ, "have": find_spec, "commands": [str(commands)]}
    if page.name != "README.md":
        monkeypatch.setenv(NO_PAGES, "1")
    with monkeypatch.context() as moved:
        moved.chdir(tmp_path)
        evaluated(document)


def test_a_block_that_fails_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nnumber = 1\n```\n\n```sh\ntest 1 = 2\n```\n", encoding="utf-8")
    with monkeypatch.context() as moved, pytest.raises(AssertionError, match="exit code 1"):
        moved.chdir(tmp_path)
        evaluated(parsed(page))


def test_files_and_names_last_for_a_page_and_skipped_blocks_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    blocks = (
        "```toml\n# file: my/x.toml\na = 1\n```",
        "```python\nname = 1\n```",
        "```python\nassert name == 1\n```",
        '<!--- skip: next if(not long, reason="minutes") -->',
        "```sh\nfalse\n```",
        '```sh\ngrep -q "a = 1" my/x.toml\n```',
    )
    page.write_text("\n\n".join(blocks), encoding="utf-8")
    document = parsed(page)
    document.namespace["long"] = False
    with monkeypatch.context() as moved:
        moved.chdir(tmp_path)
        # Four blocks and the mark of the one that is skipped.
        assert evaluated(document) == 5
