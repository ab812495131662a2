"""Run many small tasks in worker processes, and lose none of them.

A task that raises, runs too long, or kills its worker becomes an outcome with a failure; the others finish. joblib
loses its whole pool when one worker dies and does not say who killed it, so the tasks that were under way then are
run again one at a time, each in a process of its own. Outcomes come in the order in which they finish.
"""

import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor

from scenario_lib.execution.cluster import require_usable, run_on_cluster
from scenario_lib.execution.options import (
    ERROR,
    TIMEOUT,
    WORKER_DIED,
    Result,
    RunOptions,
    Task,
    TaskFailure,
    TaskOutcome,
    one_line,
)
from scenario_lib.execution.worker import WORKER_LOST, WorkerProcess, guarded, run_alone

__all__ = [
    "ERROR",
    "TIMEOUT",
    "WORKER_DIED",
    "RunOptions",
    "TaskFailure",
    "TaskOutcome",
    "one_line",
    "require_usable",
    "run_tasks",
]


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    """Outcome of `function` on every task, in the order in which they finish.

    `tasks` is read as workers become free, so that it may stop once enough is known. The function and its results
    go from process to process and must be picklable; to a cluster goes only a `PortableTask`. No worker
    process of this machine is left when it ends, however it ends.

    Raises:
        MissingExtraError, ClusterError: The cluster cannot be used, or is gone.
    """
    if options.cluster is not None:
        yield from run_on_cluster(function, tasks, options)
    elif options.jobs == 1:
        yield from _one_by_one(function, tasks, options)
    else:
        yield from _in_pools(function, _TaskQueue(tasks), options)


def _one_by_one(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    with WorkerProcess() as worker:
        for task in tasks:
            yield worker.run(function, task, options)


def _in_pools(
    function: Callable[[Task], Result], queue: "_TaskQueue[Task]", options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    try:
        while not queue.exhausted:
            try:
                yield from _in_pool(function, queue, options)
            except WORKER_LOST:
                yield from _each_alone(function, queue.take_back(), options)
        # A thread of the broken pool may have taken one more task while it ended.
        yield from _each_alone(function, queue.take_back(), options)
    finally:
        # joblib keeps its workers for the next call; they would hold their memory for minutes.
        get_reusable_executor().shutdown(kill_workers=True)


def _in_pool(
    function: Callable[[Task], Result], queue: "_TaskQueue[Task]", options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    # One thread a worker: the tasks fill the cores, and threaded sums would differ in their last bits.
    with parallel_config("loky", n_jobs=options.jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator_unordered", pre_dispatch=2 * options.jobs, batch_size=1)(
            delayed(guarded)(function, task, options, os.getpid()) for task in queue
        )
    with _left_quietly(outcomes):
        for outcome in outcomes:
            queue.finished(outcome.task)
            yield outcome


def _each_alone(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    for task in tasks:
        yield run_alone(function, task, options)


@contextmanager
def _left_quietly(outcomes: Generator[Any, None, None]) -> Iterator[None]:
    """Close a generator of joblib's in the end, without its advice about tasks that were still under way."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*still being processed by the workers", UserWarning)
            outcomes.close()


class _TaskQueue(Generic[Task]):
    """Tasks handed out one after another, and those under way."""

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
        """A task has its outcome."""
        self._under_way.remove(task)

    def take_back(self) -> list[Task]:
        """The tasks under way, which from now on are not."""
        taken, self._under_way = self._under_way, []
        return taken
