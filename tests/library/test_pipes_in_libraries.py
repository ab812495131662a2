"""A pipe, a device or a socket in the place of any file of a library is refused at once, and named."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scenario_lib.errors import ScenarioLibError
from scenario_lib.library.combine import merge_libraries
from scenario_lib.library.convert import convert_library
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.validation.replay import ReplayOptions
from scenario_lib.validation.validate import validate_library

CONTRACT = ("metadata.json", "digests.json", "traces.npz", "candidates.parquet", "resolved.parquet")
SHARDED = ("metadata.json", "digests.json", "records.arrow", "candidates.parquet", "shard-00000.arrow")


def put(kind: str, path: Path) -> None:
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


def read_all(library: Path, _: Path) -> None:
    opened = ScenarioLibrary(library)
    opened.candidates  # noqa: B018 - reads the table
    for record in opened:
        record.ofo_voltage_pen_per_step  # noqa: B018 - reads the trace
        opened._resolved.numbers(record)


def validate(library: Path, _: Path) -> None:
    report = validate_library(library, ReplayOptions(records=0))
    raise ScenarioLibError("; ".join(finding.message for finding in report.findings))


def convert(library: Path, tmp_path: Path) -> None:
    sharded = (library / "records.arrow").exists() or (library / "shard-00000.arrow").exists()
    convert_library(library, "contract" if sharded else "sharded", tmp_path / "out")


def merge(library: Path, tmp_path: Path) -> None:
    merge_libraries([library, library], tmp_path / "out")


@pytest.mark.parametrize("use", [read_all, validate, convert, merge])
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(("store", "name"), [*(("contract", n) for n in CONTRACT), *(("sharded", n) for n in SHARDED)])
def test_any_file(
    library_path: Path, tmp_path: Path, use: Callable[[Path, Path], None], kind: str, store: str, name: str
) -> None:
    if use is merge and name == "resolved.parquet":
        pytest.skip("merging draws scenarios again, and reads no numbers")
    library = library_path if store == "contract" else tmp_path / "sharded"
    if store == "sharded":
        convert_library(library_path, "sharded", library)
    put(kind, library / name)
    started = time.monotonic()
    with pytest.raises(ScenarioLibError) as caught:
        use(library, tmp_path)
    assert time.monotonic() - started < 5
    assert name in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
