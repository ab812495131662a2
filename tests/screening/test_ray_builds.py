"""Builds on Ray, started on this machine; skipped where Ray is not installed, as in CI."""

import os
import signal
from pathlib import Path

import pytest
from build_commands import content, finish, start, wait_for_candidates

pytest.importorskip("ray", reason="needs the extra 'ray'")
COMMAND = ("build", "--system", "ieee13", "--no-report", "--candidates", 16, "--out")


def test_a_build_whose_worker_is_killed_has_the_bytes_of_a_local_one(tmp_path: Path) -> None:
    finish(start(*COMMAND, tmp_path / "here", "--jobs", 1))
    process = start(*COMMAND, tmp_path / "there", "--backend", "ray")
    wait_for_candidates(process, tmp_path / "there", 2)
    os.kill(_a_ray_worker(process.pid), signal.SIGKILL)
    output, errors = finish(process)
    assert "on 1 host(s)" in output
    assert "Traceback" not in errors
    assert content(tmp_path / "there") == content(tmp_path / "here")


def _a_ray_worker(build: int) -> int:
    """A worker of the cluster that a build has started: it is a grandchild, and runs our function."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    for process in parents:
        above = parents[process]
        if parents.get(above) == build and b"_called" in Path(f"/proc/{process}/cmdline").read_bytes():
            return process
    pytest.skip("looks at processes by way of /proc")
