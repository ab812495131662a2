"""Dask: joblib's backend on a client of a running scheduler."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any

from distributed import Client, KilledWorker
from distributed.comm import CommClosedError, get_address_host_port
from joblib import Parallel
from joblib._dask import DaskDistributedBackend

from scenario_lib.errors import ClusterError
from scenario_lib.execution.cluster import Pool, left_quietly

_PATIENCE_S = 10
"""How long to wait for a scheduler, and for its first worker (s)."""


class _Backend(DaskDistributedBackend):  # type: ignore[misc]
    """joblib's, which waits for ever when Dask gives up on a task: it calls back on success only."""

    def submit(self, func: Any, callback: Callable[[Any], None]) -> Future[Any]:
        future: Future[Any] = super().submit(func, callback)
        future.add_done_callback(lambda done: _tell_error(done, callback))
        return future

    def effective_n_jobs(self, n_jobs: int) -> int:
        # With one job joblib runs the calls in this process, however many machines wait for them.
        return max(2, int(super().effective_n_jobs(n_jobs)))


def _tell_error(done: Future[Any], callback: Callable[[Any], None]) -> None:
    error = done.exception()
    if error is not None:
        callback(error)


@contextmanager
def connected(address: str) -> Iterator[Pool]:
    """A connection to the scheduler at an address.

    Raises:
        ClusterError: Nobody answers there, or no worker comes within some seconds.
    """
    try:
        # A client that does not get as far as connecting complains when it is collected.
        get_address_host_port(address)
        client = Client(address, timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} ({error}); start one with 'dask scheduler', and give its "
            f"address as --scheduler"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE_S)
        except TimeoutError:
            raise ClusterError(
                f"the Dask scheduler at {address} has no workers; start some with 'dask worker {address}'"
            ) from None
        cores = sum(client.ncores().values())
        yield Pool(cores, lambda calls: _run(client, cores, calls), (KilledWorker,))


def _run(client: Client, cores: int, calls: Iterable[Any]) -> Iterator[Any]:
    backend = _Backend(client=client, pure=False)
    outcomes = Parallel(
        n_jobs=-1, backend=backend, return_as="generator_unordered", pre_dispatch=2 * cores, batch_size=1
    )(calls)
    try:
        with left_quietly(outcomes):
            for outcome in outcomes:  # noqa: UP028 - "yield from" would pass a close on before it is left quietly
                yield outcome
    except (CancelledError, CommClosedError) as error:
        address = client.scheduler.address
        raise ClusterError(
            f"the Dask scheduler at {address} is gone ({type(error).__name__}); start it again"
        ) from None
