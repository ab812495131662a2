"""Machine code on disk: what is damaged, full or closed costs time, never a result."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[1]

# Compiles, or loads, one small kernel, and prints what it computes.
CODE = """
import logging
logging.basicConfig(format="%(message)s")
from scenario_lib.simulation.compiled import jit
{before}
import kept_kernel
print(kept_kernel.measured(), bool(kept_kernel.total.stats.cache_hits))
"""

TOTAL = 2.5  # of the kernel, by hand


def measured(folder: Path, before: str = "") -> tuple[str, str]:
    """Output and notices of a fresh process that keeps its machine code below a folder."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(before=before)],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(SAMPLES)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    assert measured(folder)[0] == f"{TOTAL} False"
    assert measured(folder) == (f"{TOTAL} True", ""), "the second process loads it"
    return folder


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [cut, change, empty])
def test_damaged_code_is_made_anew(warm: Path, kind: str, damage: Callable[[Path], None]) -> None:
    (file,) = warm.glob(f"*/*/kept_kernel.total*.{kind}")
    damage(file)
    output, notice = measured(warm)
    assert output == f"{TOTAL} False"
    assert notice == "" or str(file.parent) in notice
    assert measured(warm) == (f"{TOTAL} True", ""), "whole again"


def test_a_full_disk_costs_the_keeping_only(tmp_path: Path) -> None:
    full = "def _full(*_): raise OSError(28, 'No space left on device')\njit._CheckedFiles._save_data = _full"
    output, notice = measured(tmp_path, full)
    assert output == f"{TOTAL} False"
    assert "machine code cannot be kept there (No space left on device)" in notice
    assert str(tmp_path) in notice
    assert notice.count("\n") == 1


def test_no_folder_at_all(tmp_path: Path) -> None:
    output, notice = measured(tmp_path, "jit._writable = lambda _: False")
    assert output == f"{TOTAL} False"
    assert f"machine code is not kept, as none of {tmp_path}" in notice
