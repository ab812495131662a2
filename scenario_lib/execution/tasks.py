"""Run many small tasks in worker processes, and lose none of them.

A task that raises, runs too long, or kills its worker becomes an outcome with a failure; the others finish. joblib
loses its whole pool when one worker dies and does not say who killed it, so the tasks that were under way then are
run again one at a time, each in a process of its own. Outcomes come in the order in which they finish.
"""

import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import ProcessPoolExecutor, get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from scenario_lib.errors import InvalidSettingError, TaskTimeoutError
from scenario_lib.execution.deadline import deadline
from scenario_lib.execution.orphans import end_with_parent

Task = TypeVar("Task")
Result = TypeVar("Result")

ERROR, TIMEOUT, WORKER_DIED = "error", "timeout", "worker_died"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no result.

    Attributes:
        code: "error", "timeout" or "worker_died".
        message: Class and text of the error; nothing that differs between runs, such as addresses or durations.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Task, Result]):
    """A task with its result, or with the failure in its place.

    Attributes:
        seconds: How long it took in its worker; 0 where the worker did not live to tell.
    """

    task: Task
    result: Result | None = None
    failure: Failure | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How tasks are run.

    Attributes:
        jobs: Worker processes.
        timeout_s: Longest time for one task (s); None means no limit.
        grace_s: How much longer than its limit a task in native code may run before its process is ended (s).

    Raises:
        InvalidSettingError: Naming the option, its value, and what is allowed.
    """

    jobs: int = 1
    timeout_s: float | None = None
    grace_s: float = 5.0

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InvalidSettingError(f"jobs is {self.jobs!r}; expected at least 1")
        for name in ("timeout_s", "grace_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InvalidSettingError(f"{name} is {value!r}; expected a finite number of seconds above 0")


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    """Outcome of `function` on every task, in the order in which they finish.

    `tasks` is read as workers become free, so that it may stop once enough is known. The function and its results
    travel between processes and must be picklable. No worker is left when it ends, however it ends.
    """
    feed = _Feed(tasks)
    if options.jobs == 1:
        yield from _one_by_one(function, feed, options)
        return
    try:
        while not feed.exhausted:
            try:
                yield from _in_pool(function, feed, options)
            except (TerminatedWorkerError, BrokenProcessPool):
                yield from _each_alone(function, feed.take_back(), options)
        # A thread of the broken pool may have taken one more task while it ended.
        yield from _each_alone(function, feed.take_back(), options)
    finally:
        # joblib keeps its workers for the next call; they would hold their memory for minutes.
        get_reusable_executor().shutdown(kill_workers=True)


class _Feed(Generic[Task]):
    """The tasks, and which of them are under way."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = iter(tasks)
        self._under_way: list[Task] = []
        self.exhausted = False

    def __iter__(self) -> Iterator[Task]:
        for task in self._tasks:
            self._under_way.append(task)
            yield task
        self.exhausted = True

    def finished(self, task: Task) -> None:
        self._under_way.remove(task)

    def take_back(self) -> list[Task]:
        """The tasks under way, which from now on are not."""
        taken, self._under_way = self._under_way, []
        return taken


def _in_pool(
    function: Callable[[Task], Result], feed: _Feed[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    # One thread a worker: the tasks fill the cores, and threaded sums would differ in their last bits.
    with parallel_config("loky", n_jobs=options.jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator_unordered", pre_dispatch=2 * options.jobs, batch_size=1)(
            delayed(_guarded)(function, task, options, os.getpid()) for task in feed
        )
    with closing(outcomes):
        for outcome in outcomes:
            feed.finished(outcome.task)
            yield outcome


def _one_by_one(
    function: Callable[[Task], Result], feed: _Feed[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    """One worker process for all tasks, replaced when it dies; its task gets a second try alone."""
    tasks = iter(feed)
    ended = False
    while not ended:
        with _worker() as executor:
            ended = True
            for task in tasks:
                feed.finished(task)
                try:
                    yield executor.submit(_guarded, function, task, options, os.getpid()).result()
                except (TerminatedWorkerError, BrokenProcessPool):
                    yield from _each_alone(function, [task], options)
                    ended = False
                    break


def _each_alone(
    function: Callable[[Task], Result], tasks: list[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    for task in tasks:
        with _worker() as executor:
            started = time.monotonic()
            try:
                yield executor.submit(_guarded, function, task, options, os.getpid()).result()
            except (TerminatedWorkerError, BrokenProcessPool):
                yield Outcome(task, failure=_death(time.monotonic() - started, options))


@contextmanager
def _worker() -> Iterator[ProcessPoolExecutor]:
    """One worker process, ended on leaving even if its task still runs, as it does on Ctrl-C."""
    threads = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA", "VECLIB_MAXIMUM", "BLIS")
    executor = ProcessPoolExecutor(max_workers=1, env={f"{name}_NUM_THREADS": "1" for name in threads})
    try:
        yield executor
    finally:
        executor.shutdown(kill_workers=True)


def _death(elapsed_s: float, options: RunOptions) -> Failure:
    if options.timeout_s is not None and elapsed_s >= options.timeout_s + options.grace_s:
        return Failure(TIMEOUT, f"took longer than {options.timeout_s:g} s, in native code")
    return Failure(WORKER_DIED, "its worker process ended without a result, twice; out of memory, or a crash")


def one_line(error: BaseException) -> str:
    """Class and text of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _guarded(function: Callable[[Task], Result], task: Task, options: RunOptions, parent: int) -> Outcome[Task, Result]:
    """Runs inside the worker."""
    end_with_parent(parent)
    # Ctrl-C is for the parent: it stops handing out tasks and keeps what is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = time.perf_counter()
    result, failure = None, None
    try:
        with deadline(options.timeout_s, options.grace_s):
            result = function(task)
    except TaskTimeoutError as error:
        failure = Failure(TIMEOUT, str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever one task raises must not stop the others
        failure = Failure(ERROR, one_line(error))
    return Outcome(task, result, failure, time.perf_counter() - started)
