"""Start the real command line in a process of its own, so that it can be killed."""

import os
import subprocess
import sys
import time
from pathlib import Path

FILES = ("metadata.json", "traces.npz", "candidates.parquet", "resolved.parquet", "digests.json")

_MAIN = """
import sys
from scenario_lib.screening import build
if sys.argv[1]:
    import measured_samples
    build.measure_candidate = getattr(measured_samples, sys.argv[1])
from scenario_lib.pipelines.cli import main
main(sys.argv[2:])
"""


def start(*arguments: object, measure: str = "", wait_for: Path | None = None) -> subprocess.Popen:
    """`scenario-lib` with the given arguments.

    Args:
        measure: Function of `measured_samples` that takes the place of measuring.
        wait_for: File that `measure_until_told` waits for.
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "WAIT_FOR": str(wait_for)}
    command = [sys.executable, "-c", _MAIN, measure, *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _started.append(process)
    return process


_started: list[subprocess.Popen] = []


def end_started() -> None:
    """Kill what a failed test has left running; its workers end with it."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def finish(process: subprocess.Popen, exit_code: int = 0, timeout_s: float = 240) -> tuple[str, str]:
    """Output and error output of a command that ends with this exit code."""
    output, errors = process.communicate(timeout=timeout_s)
    assert process.returncode == exit_code, errors
    return output, errors


def finished_candidates(out: Path) -> int:
    """Lines in the journal of the build at `out`."""
    journal = out.with_name(f".{out.name}.build") / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def wait_for_candidates(process: subprocess.Popen, out: Path, count: int) -> None:
    until = time.monotonic() + 60
    while finished_candidates(out) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no candidate was finished"
        time.sleep(0.02)


def content(library: Path) -> dict[str, bytes]:
    """All files of a library but its build log."""
    assert {path.name for path in library.iterdir()} == {*FILES, "build-log.json"}
    return {name: (library / name).read_bytes() for name in FILES}
