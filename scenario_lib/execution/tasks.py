"""Run many small tasks in worker processes, and lose none of them.

A task that raises, runs too long, or kills its worker becomes an outcome with a failure; the others finish. joblib
loses its whole pool when one worker dies and does not say who killed it, so the tasks that were under way then are
run again one at a time, each in a process of its own. Outcomes come in the order in which they finish.
"""

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from scenario_lib.errors import TaskTimeoutError
from scenario_lib.execution.deadline import HARD_GRACE_S, deadline

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
    """

    jobs: int = 1
    timeout_s: float | None = None


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    """Outcome of `function` on every task, in the order in which they finish.

    `tasks` is read as workers become free, so that it may stop once enough is known. The function and its results
    travel between processes and must be picklable.
    """
    feed = _Feed(tasks)
    if options.jobs == 1:
        yield from _one_by_one(function, feed, options)
        return
    while not feed.exhausted:
        try:
            yield from _in_pool(function, feed, options)
        except (TerminatedWorkerError, BrokenProcessPool):
            suspects = feed.under_way()
            for task in suspects:
                feed.finished(task)
            yield from _each_alone(function, suspects, options)


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

    def under_way(self) -> list[Task]:
        return list(self._under_way)


def _in_pool(
    function: Callable[[Task], Result], feed: _Feed[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    # One thread a worker: the tasks fill the cores, and threaded sums would differ in their last bits.
    with parallel_config("loky", n_jobs=options.jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator_unordered", pre_dispatch=2 * options.jobs, batch_size=1)(
            delayed(_guarded)(function, task, options.timeout_s) for task in feed
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
        with _executor() as executor:
            ended = True
            for task in tasks:
                feed.finished(task)
                try:
                    yield executor.submit(_guarded, function, task, options.timeout_s).result()
                except (TerminatedWorkerError, BrokenProcessPool):
                    yield from _each_alone(function, [task], options)
                    ended = False
                    break


def _each_alone(
    function: Callable[[Task], Result], tasks: list[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    for task in tasks:
        with _executor() as executor:
            started = time.monotonic()
            try:
                yield executor.submit(_guarded, function, task, options.timeout_s).result()
            except (TerminatedWorkerError, BrokenProcessPool):
                yield Outcome(task, failure=_death(time.monotonic() - started, options.timeout_s))


def _executor() -> ProcessPoolExecutor:
    threads = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA", "VECLIB_MAXIMUM", "BLIS")
    return ProcessPoolExecutor(max_workers=1, env={f"{name}_NUM_THREADS": "1" for name in threads})


def _death(elapsed_s: float, timeout_s: float | None) -> Failure:
    if timeout_s is not None and elapsed_s >= timeout_s + HARD_GRACE_S:
        return Failure(TIMEOUT, f"took longer than {timeout_s:g} s, in native code")
    return Failure(WORKER_DIED, "its worker process ended without a result, twice; out of memory, or a crash")


def _guarded(function: Callable[[Task], Result], task: Task, timeout_s: float | None) -> Outcome[Task, Result]:
    """Runs inside the worker."""
    # Ctrl-C is for the parent: it stops handing out tasks and keeps what is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = time.perf_counter()
    result, failure = None, None
    try:
        with deadline(timeout_s):
            result = function(task)
    except TaskTimeoutError as error:
        failure = Failure(TIMEOUT, str(error))
    except Exception as error:  # noqa: BLE001 - whatever one task raises must not stop the others
        failure = Failure(ERROR, f"{type(error).__name__}: {error}")
    return Outcome(task, result, failure, time.perf_counter() - started)
