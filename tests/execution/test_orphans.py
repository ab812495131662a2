"""A parent that is interrupted or killed leaves no worker behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worker_processes import is_running, workers_of

PARENT = """
import sys
import sample_tasks
from scenario_lib.execution.tasks import RunOptions, run_tasks

for outcome in run_tasks(sample_tasks.sleep_seconds, [0.0, 120.0, 121.0], RunOptions(jobs=int(sys.argv[1]))):
    print("first is done", flush=True)
"""


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("sent", "exit_code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, -signal.SIGINT)])
def test_workers_end_with_their_parent(jobs: int, sent: signal.Signals, exit_code: int) -> None:
    command = [sys.executable, "-c", PARENT, str(jobs)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"first is done\n"
        workers = workers_of(parent.pid)
        assert len(workers) == jobs
        parent.send_signal(sent)
        try:
            assert parent.wait(timeout=10) == exit_code
        finally:
            parent.kill()
    until = time.monotonic() + 10
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() < until, f"workers {workers} outlive their parent"
        time.sleep(0.1)
