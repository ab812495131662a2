"""Pipes, devices and sockets are refused at once, wherever a file is read."""

import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenario_lib._files import file_digest, open_regular, read_text
from scenario_lib.errors import IrregularFileError, ScenarioLibError
from scenario_lib.feeders.circuit_files import circuit_digest, read_bus_coordinates
from scenario_lib.feeders.experiment_file import read_experiment
from scenario_lib.screening.recipe_file import read_recipe_tables

KINDS = ["pipe", "link to a pipe", "endless device", "silent device", "socket"]
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def at_once() -> Iterator[None]:
    """A test that hangs ends the session rather than wait for ever."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 5


def put(kind: str, path: Path) -> Path:
    """What is no regular file, at a path."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a pipe":
        os.mkfifo(path.with_name("the pipe"))
        path.symlink_to("the pipe")
    elif kind == "socket":
        # Its address is short by way of a relative path: the system allows about a hundred characters.
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            socket.socket(socket.AF_UNIX).bind(path.name)
        finally:
            os.chdir(here)
    else:
        path.symlink_to("/dev/zero" if kind == "endless device" else "/dev/tty")
    return path


@kinds
@pytest.mark.parametrize("read", [open_regular, read_text, file_digest, read_recipe_tables])
@pytest.mark.usefixtures("at_once")
def test_only_regular_files_are_opened(tmp_path: Path, kind: str, read: Callable[[Path], object]) -> None:
    path = put(kind, tmp_path / "file")
    with pytest.raises(IrregularFileError, match=r"file: is a .*; expected a regular file"):
        read(path)


@pytest.mark.usefixtures("at_once")
def test_a_link_to_a_regular_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("é\r\n".encode())
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "link") == "é\n"


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    regular = path.stat()
    put("pipe", path)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: regular)
    assert stat.S_ISREG(path.stat().st_mode)
    refusals: list[IrregularFileError] = []

    def read() -> None:
        try:
            open_regular(path)
        except IrregularFileError as error:
            refusals.append(error)

    waiting = threading.Thread(target=read, daemon=True)
    waiting.start()
    waiting.join(5)
    assert len(refusals) == 1


EXPERIMENT = Path(__file__).parents[2] / "data" / "feeders" / "ieee13"


@kinds
@pytest.mark.parametrize("name", ["experiment.toml", "ieee13.dss", "bus_coordinates.csv", "load.dss", "pv.csv"])
@pytest.mark.usefixtures("at_once")
def test_a_feeders_folder(tmp_path: Path, kind: str, name: str) -> None:
    for file in EXPERIMENT.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    circuit, toml = tmp_path / "ieee13.dss", tmp_path / "experiment.toml"
    circuit.write_text(circuit.read_text() + "\nredirect load.dss\n")
    toml.write_text(
        toml.read_text() + '\n[[loads]]\nbus = "671"\nbus_kv = 4.16\npeak_kw_per_phase = 1.0\nseries_csv = "pv.csv"\n'
    )
    for extra in ("load.dss", "pv.csv"):
        (tmp_path / extra).write_text("! none\n" if extra == "load.dss" else "time_s,kw\n0,1\n3600,1\n")
    put(kind, tmp_path / name)
    with pytest.raises(ScenarioLibError, match="expected a regular file"):
        read_experiment(toml)
        circuit_digest(circuit)
        read_bus_coordinates(circuit)
