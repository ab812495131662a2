"""What goes into a bundle, and what comes out of it elsewhere."""

import dataclasses
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import portable_tasks
import pytest
from portable_tasks import SHIPPED, Altered, Plain, Reading

from scenario_lib.errors import ClusterError, InvalidSettingError
from scenario_lib.execution import task_bundle
from scenario_lib.execution.options import Cluster, RunOptions
from scenario_lib.execution.task_bundle import (
    TaskEnvelope,
    TaskOutcome,
    TaskRefused,
    difference,
    identity,
    pack,
    run_envelope,
    unpack,
)


@pytest.fixture(autouse=True, scope="module")
def _no_worker_is_left() -> Iterator[None]:
    """Here tasks run in the process of the tests, which is to have no workers of its own after these."""
    yield
    task_bundle.end_workers()


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    file = tmp_path / "original" / "mine.txt"
    file.parent.mkdir()
    file.write_text("a user's own file")
    return Reading(path=file)


def test_a_file_is_read_where_it_was_unpacked(reading: Reading, tmp_path: Path) -> None:
    bundle = pack(reading)
    reading.path.unlink()
    moved = unpack(bundle.content, tmp_path / "elsewhere")
    assert moved(1)[:3] == (1, "a user's own file", str(tmp_path / "elsewhere" / "read"))


def test_equal_bundles_have_equal_digests_and_others_have_not(reading: Reading) -> None:
    first = pack(reading)
    assert pack(reading) == first
    reading.path.write_text("edited")
    assert pack(reading).digest != first.digest


def test_what_ships_is_named_and_not_sent(reading: Reading, tmp_path: Path) -> None:
    own = len(pack(reading).content)
    content = SHIPPED.read()
    reading.path.write_bytes(content)
    (file,) = reading.packed()[1]
    assert file.content == SHIPPED
    assert len(pack(reading).content) < own + 100 < len(content)
    assert unpack(pack(reading).content, tmp_path / "elsewhere")(1)[1].encode() == content


def test_a_shipped_file_that_differs_over_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"specs/trace\.csv is not the same file as where the build was started"):
        unpack(pack(Altered(len)).content, tmp_path)


def test_a_function_that_is_not_installed_over_there_is_refused(tmp_path: Path, monkeypatch) -> None:
    content = pack(Plain(len)).content
    monkeypatch.delattr(portable_tasks, "Plain")
    with pytest.raises(ClusterError, match="what the tasks run is not installed: .*Plain"):
        unpack(content, tmp_path)


def envelope_for(function: Plain, **changes: object) -> TaskEnvelope:
    bundle = pack(function)
    whole = TaskEnvelope(bundle.digest, lambda: bundle.content, identity(function.distributions()), RunOptions())
    return dataclasses.replace(whole, **changes)


def absent() -> bytes:
    raise FileNotFoundError("no such bundle")


def test_a_worker_reads_a_bundle_once(reading: Reading) -> None:
    complete = envelope_for(reading)
    reply = run_envelope(dataclasses.replace(complete, read=absent), 1)
    assert isinstance(reply, TaskRefused)
    assert reply.reason.endswith("no such bundle")
    first = run_envelope(complete, 1)
    assert isinstance(first, TaskOutcome)
    assert first.result[:2] == (1, "a user's own file")
    assert first.worker == f"{platform.node()}:{os.getpid()}"
    second = run_envelope(dataclasses.replace(complete, read=absent), 2)
    assert second.result[:2] == (2, "a user's own file")
    assert second.result[2] == first.result[2], "unpacked once"


def test_what_a_killed_process_unpacked_is_removed_by_the_next(tmp_path: Path) -> None:
    code = "from scenario_lib.execution import task_bundle as t; import os, signal; print(t._folder(), flush=True)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def folder_of(then: str) -> Path:
        command = [sys.executable, "-c", f"{code}; {then}"]
        return Path(
            subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()
        )

    killed = folder_of("os.kill(os.getpid(), signal.SIGKILL)")
    assert killed.is_dir()
    ended = folder_of("print(end='')")
    assert ended.parent == killed.parent
    assert not killed.exists()
    assert not ended.exists()


def test_a_worker_keeps_the_latest_bundles_only(reading: Reading, monkeypatch) -> None:
    monkeypatch.setattr(task_bundle, "_BUNDLES_KEPT", 1)
    first = envelope_for(reading)
    folder = Path(run_envelope(first, 1).result[2])
    assert folder.is_dir()
    reading.path.write_text("edited")
    assert run_envelope(envelope_for(reading), 2).result[1] == "edited"
    assert not folder.exists()
    reading.path.write_text("edited again")
    assert run_envelope(first, 3).result[1] == "a user's own file", "read once more"


def test_other_versions_are_refused_by_name() -> None:
    ours = envelope_for(Plain(len))
    other = {**ours.expected, "numpy": "1.0"}
    reply = run_envelope(dataclasses.replace(ours, expected=other), 1)
    assert isinstance(reply, TaskRefused)
    assert reply.reason.endswith(f"numpy {ours.expected['numpy']} instead of 1.0")


def test_a_worker_that_cannot_prepare_says_why() -> None:
    reply = run_envelope(envelope_for(portable_tasks.CannotPrepare(len)), 1)
    assert isinstance(reply, TaskRefused)
    assert reply.reason.endswith("cannot prepare for the tasks: FileNotFoundError: no compiler")


def test_identity_has_versions_and_the_source() -> None:
    found = identity(("numpy", "no-such-distribution"))
    assert set(found) == {"python", "numpy", "no-such-distribution", "source"}
    assert found["no-such-distribution"] == "missing"
    assert difference(found, found) is None
    assert difference({**found, "source": "other"}, found) == f"source other instead of {found['source']}"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("spark",), "backend is 'spark'; expected one of dask, ray"),
        (("ray", None, 0), "wait_workers is 0; expected a whole number, at least 1"),
        (("dask",), "backend dask needs the address of a scheduler, such as --scheduler tcp://host:8786"),
    ],
)
def test_clusters_are_checked(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text):
        Cluster(*arguments)
