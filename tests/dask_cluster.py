"""A real Dask cluster on this machine: a scheduler and two worker processes, in folders of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parent
N_WORKERS = 2


@contextmanager
def dask_scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """A scheduler without workers; gives its address and its process."""
    announced = folder / "scheduler.json"
    # Dask would try a task four times; with one attempt, what follows when it gives up is tested in seconds.
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(announced)]
    with _started("dask_scheduler", options, folder, environment) as process:
        _wait(announced.exists, process)
        from distributed import Client

        with Client(scheduler_file=str(announced), set_as_default=False) as client:
            yield client.scheduler.address, process


@contextmanager
def dask_cluster(folder: Path) -> Iterator[str]:
    """A scheduler with two workers of one thread each, under nannies that start them again; gives the address.

    The workers run in empty folders, and find the sample tasks of the tests.
    """
    with dask_scheduler(folder) as (address, _):
        workers = [dask_worker(address, folder / f"worker{number}") for number in range(N_WORKERS)]
        with workers[0], workers[1]:
            from distributed import Client

            with Client(address, set_as_default=False) as client:
                client.wait_for_workers(N_WORKERS, timeout=60)
            yield address


def dask_worker(address: str, folder: Path, *options: str):
    """A worker of one thread, in an empty folder that is made for it; gives the process of its nanny."""
    folder.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(TESTS / name) for name in ("execution", "screening")),
    }
    return _started("dask_worker", [address, "--nthreads", "1", "--no-dashboard", *options], folder, environment)


@contextmanager
def _started(what: str, options: list[str], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", f"distributed.cli.{what}", *options]
    environment = {**environment, "TMPDIR": str(folder)}  # Dask's scratch, and what a worker that is killed leaves
    with (folder / f"{what}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(condition, process: subprocess.Popen) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "it ended at once"
        assert time.monotonic() < until, "it does not answer"
        time.sleep(0.05)
