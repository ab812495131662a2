"""Run tasks on the workers that a cluster has at the moment, be they none, few or many.

Tasks are handed out one by one, so many as the workers of the moment can have under way and in waiting, and each reply
is kept apart by the handle of its task. A task whose worker died, although the cluster itself has tried it again
elsewhere, gets one more try when nothing else is under way, and answers for itself.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol

from scenario_lib.errors import ClusterError, MissingExtraError
from scenario_lib.execution.options import DIED_TWICE, Cluster, Result, RunOptions, Task, TaskOutcome, one_line
from scenario_lib.execution.task_bundle import (
    PortableTask,
    TaskEnvelope,
    TaskRefused,
    identity,
    pack,
    refusal,
    run_envelope,
)

logger = logging.getLogger(__name__)

WORKER_LOST = object()
"""In place of a reply: the workers that ran the task died, and the cluster's own attempts are used up."""


def cluster_gone(name: str, error: BaseException) -> ClusterError:
    """The error of a cluster that does not answer any more."""
    return ClusterError(
        f"{name} is gone ({type(error).__name__}); start it again, and give the same command: a build goes on with "
        f"--resume, and loses nothing that is finished"
    )


def workers_unable(error: BaseException) -> ClusterError:
    """The error of a worker that cannot read what it is to run."""
    return ClusterError(
        f"a worker of the cluster cannot run tasks ({one_line(error)}); install the same versions there"
    )


_LOOK_EVERY_S = 0.5
_TELL_EVERY_S = 30.0
_LEAST_UNDER_WAY = 2
"""Tasks handed out though there is no worker: what a cluster that starts workers for waiting tasks goes by."""


class ClusterConnection(Protocol):
    """A cluster that runs functions."""

    @property
    def name(self) -> str:
        """What it is and where, for messages."""
        ...

    @property
    def remedy(self) -> str:
        """How its workers are started."""
        ...

    def workers(self) -> dict[str, int]:
        """Tasks that each connected worker runs at a time, by its address."""
        ...

    def share(self, name: str, content: bytes) -> Callable[[], bytes]:
        """Bring bytes to every worker, now or when it comes; the result gives them there."""
        ...

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Hashable:
        """Hand out a call; the result is what its reply is known by."""
        ...

    def replies(self, wait_s: float) -> list[tuple[Hashable, Any]]:
        """Handles and results of calls that have come back, or come within some seconds; or `WORKER_LOST`.

        Raises:
            ClusterError: The cluster is gone, or a worker cannot run such a call.
        """
        ...


def connected(cluster: Cluster) -> AbstractContextManager[ClusterConnection]:
    """A connection, closed on leaving.

    Raises:
        MissingExtraError: The extra of this kind is not installed.
        ClusterError: Nobody answers at the address.
    """
    try:
        module = import_module(f"scenario_lib.execution.{cluster.kind}_backend")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"backend {cluster.kind} needs {error.name}: pip install 'scenario-lib[{cluster.kind}]'"
        ) from None
    connection: AbstractContextManager[ClusterConnection] = module.connected(cluster.address)
    return connection


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
    with connected(options.cluster) as connection:
        read = connection.share(bundle.digest, bundle.content)
        envelope = TaskEnvelope(bundle.digest, read, identity(function.distributions()), options)
        yield from _Dispatch(connection, envelope, tasks).outcomes()


def require_usable(cluster: Cluster, distributions: tuple[str, ...]) -> None:
    """Find out before any work whether a cluster answers and its workers have what we have; waits for the workers.

    Raises:
        MissingExtraError: The extra for this backend is not installed.
        ClusterError: No scheduler, or a worker with other versions; the message names it.
    """
    expected = identity(distributions)
    with connected(cluster) as connection:
        watch = _Watch(connection)
        # Handed out at once: a cluster that grows with its work starts its first worker for it.
        _check(connection, watch, expected, 1)
        while len(watch.workers) < cluster.wait_workers:
            watch.look(f"; waiting for {cluster.wait_workers}")
            time.sleep(_LOOK_EVERY_S)
        _check(connection, watch, expected, sum(watch.workers.values()))


def _check(connection: ClusterConnection, watch: "_Watch", expected: dict[str, str], count: int) -> None:
    waiting = {connection.submit(refusal, expected) for _ in range(count)}
    while waiting:
        for handle, reply in connection.replies(_LOOK_EVERY_S):
            waiting.discard(handle)
            _require_accepted(reply)
        watch.look()


class _Watch:
    """Which workers there are, told whenever that changes, and from time to time where there are none."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._looked_at = self._told_at = -_TELL_EVERY_S
        self._told: object = None
        self.workers: dict[str, int] = {}

    @property
    def room(self) -> int:
        """Tasks to have out: one for each core to work at, and one to go on with."""
        return max(_LEAST_UNDER_WAY, 2 * sum(self.workers.values()))

    def look(self, also: str = "") -> None:
        """Ask the cluster for its workers, unless that was a moment ago."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at, self.workers = now, self._connection.workers()
        count = len(self.workers)
        if count == self._told and (count or now - self._told_at < _TELL_EVERY_S):
            return
        self._told, self._told_at = count, now
        hosts = len({_host(worker) for worker in self.workers})
        if count:
            logger.info("%s: %d worker(s) on %d host(s)%s", self._connection.name, count, hosts, also)
        else:
            logger.info(
                "%s has no worker; waiting for one, Ctrl-C stops. %s", self._connection.name, self._connection.remedy
            )


def _host(worker: str) -> str:
    return worker.rpartition("://")[2].rpartition(":")[0] or worker


class _Dispatch:
    """One run: what is under way on the cluster, and what comes back."""

    def __init__(self, connection: ClusterConnection, envelope: TaskEnvelope, tasks: Iterable[Any]) -> None:
        self._connection = connection
        self._envelope = envelope
        self._tasks = iter(tasks)
        self._ended = False
        self._under_way: dict[Hashable, Any] = {}
        self._suspects: list[Any] = []
        self._watch = _Watch(connection)
        self._failures: Counter[str] = Counter()

    def outcomes(self) -> Iterator[TaskOutcome[Any, Any]]:
        while self._fill() or self._suspects:
            yield from self._received()
            if self._suspects and not self._under_way:
                yield from self._alone(self._suspects.pop())
        if self._failures:
            hosts = ", ".join(f"{host}: {count}" for host, count in sorted(self._failures.items()))
            logger.info("tasks that failed, by host: %s", hosts)

    def _fill(self) -> bool:
        """Hand out what there is room for; whether anything is under way.

        Nothing new goes out before tasks whose worker died have had their last try.
        """
        self._watch.look()
        while not self._ended and not self._suspects and len(self._under_way) < self._watch.room:
            try:
                task = next(self._tasks)
            except StopIteration:
                self._ended = True
            else:
                self._submit(task)
        return bool(self._under_way)

    def _submit(self, task: Any) -> None:
        self._under_way[self._connection.submit(run_envelope, self._envelope, task)] = task

    def _received(self) -> Iterator[TaskOutcome[Any, Any]]:
        for handle, reply in self._connection.replies(_LOOK_EVERY_S):
            task = self._under_way.pop(handle)
            if reply is WORKER_LOST:
                self._suspects.append(task)
            else:
                yield self._accepted(reply)

    def _alone(self, task: Any) -> Iterator[TaskOutcome[Any, Any]]:
        """A task that was under way when workers died, with nothing else beside it."""
        self._submit(task)
        while self._under_way:
            self._watch.look()
            for handle, reply in self._connection.replies(_LOOK_EVERY_S):
                del self._under_way[handle]
                yield TaskOutcome(task, failure=DIED_TWICE) if reply is WORKER_LOST else self._accepted(reply)

    def _accepted(self, reply: Any) -> TaskOutcome[Any, Any]:
        outcome: TaskOutcome[Any, Any] = _require_accepted(reply)
        if outcome.failure is not None:
            self._failures[_host(outcome.worker)] += 1
        return outcome


def _require_accepted(reply: Any) -> Any:
    if isinstance(reply, TaskRefused):
        raise ClusterError(
            f"a worker of the cluster cannot give the same results: {reply.reason}; install the same versions there"
        )
    return reply
