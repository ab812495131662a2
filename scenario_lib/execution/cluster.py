"""Run tasks on the machines of a cluster, through joblib's backends for Dask and Ray.

A task goes out in an envelope: with the bundle at first, later with the bundle's digest alone. A worker that has not
got the bundle, because it came late or was started again, says so, and gets the task again with the bundle. This is
the only file that knows one kind of cluster from another.
"""

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from joblib import delayed

from scenario_lib.errors import ClusterError, MissingExtraError
from scenario_lib.execution.options import DIED_TWICE, Cluster, Result, RunOptions, Task, TaskOutcome, TaskQueue
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
    bundle = pack(function)
    envelope = TaskEnvelope(bundle.digest, bundle.content, identity(function.distributions()), options)
    with connected(options.cluster) as pool:
        yield from _Dispatch(pool, envelope, TaskQueue(tasks)).outcomes()


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

    def __init__(self, pool: Pool, envelope: TaskEnvelope, queue: TaskQueue[Any]) -> None:
        self._pool = pool
        self._envelope = envelope
        self._queue = queue
        self._bundles_to_send = pool.cores

    def outcomes(self) -> Iterator[TaskOutcome[Any, Any]]:
        while not self._queue.exhausted:
            try:
                yield from self._received(self._pool.run(self._calls()))
            except self._pool.worker_lost:
                yield from self._each_alone(self._queue.take_back())

    def _calls(self) -> Iterator[Any]:
        for task in self._queue:
            yield delayed(run_envelope)(self._next_envelope(), task)

    def _next_envelope(self) -> TaskEnvelope:
        if self._bundles_to_send == 0:
            return replace(self._envelope, content=None)
        self._bundles_to_send -= 1
        return self._envelope

    def _received(self, replies: Iterator[Reply]) -> Iterator[TaskOutcome[Any, Any]]:
        for reply in replies:
            _require_accepted(reply)
            if isinstance(reply, BundleMissing):
                self._bundles_to_send += 1
                self._queue.again(reply.task)
            elif isinstance(reply, TaskOutcome):
                self._queue.finished(reply.task)
                yield reply

    def _each_alone(self, tasks: list[Any]) -> Iterator[TaskOutcome[Any, Any]]:
        """Tasks that were under way when workers died, one at a time, so that each answers for itself."""
        for task in tasks:
            try:
                for reply in self._pool.run(iter([delayed(run_envelope)(self._envelope, task)])):
                    _require_accepted(reply)
                    yield reply
            except self._pool.worker_lost:
                yield TaskOutcome(task, failure=DIED_TWICE)


def _require_accepted(reply: object) -> None:
    if isinstance(reply, TaskRefused):
        raise ClusterError(
            f"a worker of the cluster cannot give the same results: {reply.reason}; install the same versions there"
        )
