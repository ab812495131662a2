"""Run tasks on the machines of a cluster, through joblib's backends for Dask and Ray.

A task goes out as its errand: with the parcel at first, later with the parcel's digest alone. A worker that has not
got the parcel, because it came late or was started again, says so, and gets the task again with the parcel.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from joblib import delayed

from scenario_lib.errors import ClusterError
from scenario_lib.execution.errand import Errand, Lacking, Refused, Reply, refusal, run_errand
from scenario_lib.execution.feed import Feed
from scenario_lib.execution.identity import identity
from scenario_lib.execution.options import Cluster, RunOptions
from scenario_lib.execution.outcomes import DIED_TWICE, Outcome, Result, Task
from scenario_lib.execution.parcel import pack
from scenario_lib.execution.pools import Pool, connected
from scenario_lib.execution.portable import Portable


def run_on_cluster(
    function: Callable[[Task], Result], tasks: Iterable[Task], options: RunOptions
) -> Iterator[Outcome[Task, Result]]:
    """Outcomes of tasks, in the order in which they come back.

    Raises:
        MissingExtraError, ClusterError: The cluster cannot be used, or is gone.
    """
    if options.cluster is None or not isinstance(function, Portable):
        raise TypeError(f"{function!r} cannot go to a cluster, because it does not say which files it reads")
    parcel = pack(function)
    errand = Errand(parcel.digest, parcel.content, identity(function.distributions()), options)
    with connected(options.cluster) as pool:
        yield from _Dispatch(pool, errand, Feed(tasks)).outcomes()


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

    def __init__(self, pool: Pool, errand: Errand, feed: Feed[Any]) -> None:
        self._pool = pool
        self._errand = errand
        self._feed = feed
        self._parcels_to_send = pool.cores

    def outcomes(self) -> Iterator[Outcome[Any, Any]]:
        while not self._feed.exhausted:
            try:
                yield from self._received(self._pool.run(self._calls()))
            except self._pool.worker_lost:
                yield from self._each_alone(self._feed.take_back())

    def _calls(self) -> Iterator[Any]:
        for task in self._feed:
            yield delayed(run_errand)(self._next_errand(), task)

    def _next_errand(self) -> Errand:
        if self._parcels_to_send == 0:
            return replace(self._errand, content=None)
        self._parcels_to_send -= 1
        return self._errand

    def _received(self, replies: Iterator[Reply]) -> Iterator[Outcome[Any, Any]]:
        for reply in replies:
            _require_accepted(reply)
            if isinstance(reply, Lacking):
                self._parcels_to_send += 1
                self._feed.again(reply.task)
            elif isinstance(reply, Outcome):
                self._feed.finished(reply.task)
                yield reply

    def _each_alone(self, tasks: list[Any]) -> Iterator[Outcome[Any, Any]]:
        """Tasks that were under way when workers died, one at a time, so that each answers for itself."""
        for task in tasks:
            try:
                for reply in self._pool.run(iter([delayed(run_errand)(self._errand, task)])):
                    _require_accepted(reply)
                    yield reply
            except self._pool.worker_lost:
                yield Outcome(task, failure=DIED_TWICE)


def _require_accepted(reply: object) -> None:
    if isinstance(reply, Refused):
        raise ClusterError(
            f"a worker of the cluster cannot give the same results: {reply.reason}; install the same versions there"
        )
