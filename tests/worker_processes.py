"""Look at worker processes from outside, by way of /proc."""

from pathlib import Path

import pytest


def workers_of(parent: int) -> list[int]:
    """Worker processes of a process, by number."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("looks at processes by way of /proc")
    workers = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if found == parent and b"popen_loky" in command:
            workers.append(int(entry.name))
    return sorted(workers)


def is_running(process: int) -> bool:
    """Whether a process runs; one that ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
