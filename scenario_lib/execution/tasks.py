"""Connections to clusters, and what to expect of them; the only place that knows one kind from another.

Leave a run of joblib before its end, which is what a build does that has enough, or that is interrupted.

Run tasks on the machines of a cluster, through joblib's backends for Dask and Ray.

A task goes out as its errand: with the parcel at first, later with the parcel's digest alone. A worker that has not
got the parcel, because it came late or was started again, says so, and gets the task again with the parcel.

Run many small tasks in worker processes, and lose none of them.

A task that raises, runs too long, or kills its worker becomes an outcome with a failure; the others finish. joblib
loses its whole pool when one worker dies and does not say who killed it, so the tasks that were under way then are
run again one at a time, each in a process of its own. Outcomes come in the order in which they finish.
"""

import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor

from scenario_lib.errors import ClusterError, MissingExtraError
from scenario_lib.execution.options import (
    DIED_TWICE,
    ERROR,
    TIMEOUT,
    WORKER_DIED,
    Cluster,
    Result,
    RunOptions,
    Task,
    TaskFailure,
    TaskOutcome,
    TaskQueue,
    one_line,
)
from scenario_lib.execution.task_bundle import (
    BundleMissing,
    PortableTask,
    Reply,
    TaskEnvelope,
    TaskRefused,
    identity,
    pack,
    refusal,
    run_envelope,
)
from scenario_lib.execution.worker import WORKER_LOST, WorkerProcess, guarded, run_alone


@dataclass(frozen=True, slots=True)
class Pool:
    """A cluster that takes joblib's delayed calls.

    Attributes:
        cores: Tasks that it runs at a time.
        run: Results of calls as they come back; calls are read as cores become free.
        worker_lost: What `run` raises when a call's worker died and the cluster's own attempts are used up.
    """

    cores: int
    run: Callable[[Iterable[Any]], Iterator[Any]]
    worker_lost: tuple[type[Exception], ...]


def connected(cluster: Cluster) -> AbstractContextManager[Pool]:
    """A connection, closed on leaving.

    Raises:
        MissingExtraError: The extra of this kind is not installed.
        ClusterError: Nobody answers at the address, or there are no workers.
    """
    try:
        module = import_module(f"scenario_lib.execution.{cluster.kind}_backend")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"backend {cluster.kind} needs {error.name}: pip install 'scenario-lib[{cluster.kind}]'"
        ) from None
    pool: AbstractContextManager[Pool] = module.connected(cluster.address)
    return pool


@contextmanager
def left_quietly(outcomes: Generator[Any, None, None]) -> Iterator[None]:
    """Close a generator of joblib's in the end, without its advice about tasks that were still under way."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*still being processed by the workers", UserWarning)
            outcomes.close()


def run_on_cluster(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    """Outcomes of tasks, in the order in which they come back.

    Raises:
        MissingExtraError, ClusterError: The cluster cannot be used, or is gone.
    """
    if options.cluster is None or not isinstance(function, PortableTask):
        raise TypeError(f"{function!r} cannot go to a cluster, because it does not say which files it reads")
    parcel = pack(function)
    errand = TaskEnvelope(parcel.digest, parcel.content, identity(function.distributions()), options)
    with connected(options.cluster) as pool:
        yield from _Dispatch(pool, errand, TaskQueue(tasks)).outcomes()


def require_usable(cluster: Cluster, distributions: tuple[str, ...]) -> None:
    """Find out before any work whether a cluster answers and its workers have what we have.

    Raises:
        MissingExtraError: The extra for this backend is not installed.
        ClusterError: No scheduler, no workers, or one with other versions; the message names it.
    """
    with connected(cluster) as pool:
        expected = identity(distributions)
        for refused in pool.run(delayed(refusal)(expected) for _ in range(pool.cores)):
            _require_accepted(refused)


class _Dispatch:
    """One run: what is under way on the cluster, and what comes back."""

    def __init__(self, pool: Pool, errand: TaskEnvelope, feed: TaskQueue[Any]) -> None:
        self._pool = pool
        self._errand = errand
        self._feed = feed
        self._parcels_to_send = pool.cores

    def outcomes(self) -> Iterator[TaskOutcome[Any, Any]]:
        while not self._feed.exhausted:
            try:
                yield from self._received(self._pool.run(self._calls()))
            except self._pool.worker_lost:
                yield from self._each_alone(self._feed.take_back())

    def _calls(self) -> Iterator[Any]:
        for task in self._feed:
            yield delayed(run_envelope)(self._next_errand(), task)

    def _next_errand(self) -> TaskEnvelope:
        if self._parcels_to_send == 0:
            return replace(self._errand, content=None)
        self._parcels_to_send -= 1
        return self._errand

    def _received(self, replies: Iterator[Reply]) -> Iterator[TaskOutcome[Any, Any]]:
        for reply in replies:
            _require_accepted(reply)
            if isinstance(reply, BundleMissing):
                self._parcels_to_send += 1
                self._feed.again(reply.task)
            elif isinstance(reply, TaskOutcome):
                self._feed.finished(reply.task)
                yield reply

    def _each_alone(self, tasks: list[Any]) -> Iterator[TaskOutcome[Any, Any]]:
        """Tasks that were under way when workers died, one at a time, so that each answers for itself."""
        for task in tasks:
            try:
                for reply in self._pool.run(iter([delayed(run_envelope)(self._errand, task)])):
                    _require_accepted(reply)
                    yield reply
            except self._pool.worker_lost:
                yield TaskOutcome(task, failure=DIED_TWICE)


def _require_accepted(reply: object) -> None:
    if isinstance(reply, TaskRefused):
        raise ClusterError(
            f"a worker of the cluster cannot give the same results: {reply.reason}; install the same versions there"
        )


__all__ = ["ERROR", "TIMEOUT", "WORKER_DIED", "RunOptions", "TaskFailure", "TaskOutcome", "one_line", "run_tasks"]


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    """Outcome of `function` on every task, in the order in which they finish.

    `tasks` is read as workers become free, so that it may stop once enough is known. The function and its results
    travel between processes and must be picklable; to a cluster goes only a function that is `Portable`. No worker
    process of this machine is left when it ends, however it ends.

    Raises:
        MissingExtraError, ClusterError: The cluster cannot be used, or is gone.
    """
    if options.cluster is not None:
        yield from run_on_cluster(function, tasks, options)
    elif options.jobs == 1:
        yield from _one_by_one(function, tasks, options)
    else:
        yield from _in_pools(function, TaskQueue(tasks), options)


def _one_by_one(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    with WorkerProcess() as worker:
        for task in tasks:
            yield worker.run(function, task, options)


def _in_pools(
    function: Callable[[Task], Result], feed: TaskQueue[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    try:
        while not feed.exhausted:
            try:
                yield from _in_pool(function, feed, options)
            except WORKER_LOST:
                yield from _each_alone(function, feed.take_back(), options)
        # A thread of the broken pool may have taken one more task while it ended.
        yield from _each_alone(function, feed.take_back(), options)
    finally:
        # joblib keeps its workers for the next call; they would hold their memory for minutes.
        get_reusable_executor().shutdown(kill_workers=True)


def _in_pool(
    function: Callable[[Task], Result], feed: TaskQueue[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    # One thread a worker: the tasks fill the cores, and threaded sums would differ in their last bits.
    with parallel_config("loky", n_jobs=options.jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator_unordered", pre_dispatch=2 * options.jobs, batch_size=1)(
            delayed(guarded)(function, task, options, os.getpid()) for task in feed
        )
    with left_quietly(outcomes):
        for outcome in outcomes:
            feed.finished(outcome.task)
            yield outcome


def _each_alone(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[TaskOutcome[Task, Result]]:
    for task in tasks:
        yield run_alone(function, task, options)
