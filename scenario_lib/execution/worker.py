"""One worker process that survives its tasks: one that dies is replaced, and its task gets a second try alone."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from scenario_lib.errors import TaskTimeoutError
from scenario_lib.execution.options import (
    DIED_TWICE,
    ERROR,
    TIMEOUT,
    Result,
    RunOptions,
    Task,
    TaskFailure,
    TaskOutcome,
    available_cores,
    one_line,
)
from scenario_lib.execution.process import deadline, end_with_parent

WORKER_LOST = (TerminatedWorkerError, BrokenProcessPool)
"""What loky raises when a worker process ends without a result."""

_THREAD_VARIABLES = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA", "VECLIB_MAXIMUM", "BLIS")


class WorkerProcess:
    """A process of its own for one task after another, started with the first.

    Args:
        idle_s: After so long without a task the process ends, and the next task starts another one; None means never.
    """

    def __init__(self, idle_s: float | None = None) -> None:
        self._idle_s = idle_s
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, function: Callable[[Task], Result], task: Task, options: RunOptions) -> TaskOutcome[Task, Result]:
        """Outcome of one task, whatever it does to the process."""
        try:
            return self.attempt(function, task, options)
        except WORKER_LOST:
            self.close()
            return run_alone(function, task, options)

    def close(self) -> None:
        """End the process even if its task still runs, as it does on Ctrl-C."""
        if self._executor is not None:
            self._executor.shutdown(kill_workers=True)
            self._executor = None

    def attempt(self, function: Callable[[Task], Result], task: Task, options: RunOptions) -> TaskOutcome[Task, Result]:
        """Outcome of one task; raises one of `WORKER_LOST` if the process did not live to tell."""
        if self._executor is None:
            # One thread: threaded sums would differ in their last bits.
            threads = {f"{name}_NUM_THREADS": "1" for name in _THREAD_VARIABLES}
            self._executor = ProcessPoolExecutor(max_workers=1, timeout=self._idle_s, env=threads)
        with _children_allowed():
            future = self._executor.submit(guarded, function, task, options, os.getpid())
        outcome: TaskOutcome[Task, Result] = future.result()
        return outcome


def run_alone(function: Callable[[Task], Result], task: Task, options: RunOptions) -> TaskOutcome[Task, Result]:
    """Outcome of a task that was under way when a worker died: a process to itself, and no further try."""
    started = time.monotonic()
    with WorkerProcess() as worker:
        try:
            return worker.attempt(function, task, options)
        except WORKER_LOST:
            return TaskOutcome(task, failure=_death(time.monotonic() - started, options))


@contextmanager
def done_beside(function: Callable[[Task], Result], task: Task) -> Iterator[None]:
    """Run a task in a process of its own while the block runs, if there is a second core; its result is dropped.

    What it leaves on disk is there when the block has ended, unless the task failed, which is not told.
    """
    if available_cores() < 2:
        yield
        return
    with WorkerProcess() as worker:
        thread = threading.Thread(target=_attempted, args=(worker, function, task), daemon=True)
        thread.start()
        yield
        thread.join()


def _attempted(worker: WorkerProcess, function: Callable[[Task], Result], task: Task) -> None:
    with contextlib.suppress(RuntimeError, CancelledError):  # the process died, or is ended as the block has failed
        worker.attempt(function, task, RunOptions())


@contextmanager
def _children_allowed() -> Iterator[None]:
    """Dask's nanny starts its workers as daemons, which Python keeps from having children.

    The rule is there because nobody would end them; ours end with their parent by themselves.
    """
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    daemon = config.pop("daemon", None)
    try:
        yield
    finally:
        if daemon is not None:
            config["daemon"] = daemon


def _death(elapsed_s: float, options: RunOptions) -> TaskFailure:
    if options.timeout_s is not None and elapsed_s >= options.timeout_s + options.grace_s:
        return TaskFailure(TIMEOUT, f"took longer than {options.timeout_s:g} s, in native code")
    return DIED_TWICE


def guarded(
    function: Callable[[Task], Result], task: Task, options: RunOptions, parent: int
) -> TaskOutcome[Task, Result]:
    """Runs inside the worker: whatever one task raises must not stop the others."""
    end_with_parent(parent)
    # Ctrl-C is for the parent: it stops handing out tasks and keeps what is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = time.perf_counter()
    result, failure = None, None
    try:
        with deadline(options.timeout_s, options.grace_s):
            result = function(task)
    except TaskTimeoutError as error:
        failure = TaskFailure(TIMEOUT, str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - becomes the task's failure
        failure = TaskFailure(ERROR, one_line(error))
    return TaskOutcome(task, result, failure, time.perf_counter() - started)
