"""Dask: calls submitted to a running scheduler, results as they complete, files by a plugin that every worker gets."""

import contextlib
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from distributed import Client, KilledWorker, as_completed, get_worker
from distributed.comm import CommClosedError, get_address_host_port
from distributed.diagnostics.plugin import UploadFile

from scenario_lib.errors import ClusterError
from scenario_lib.execution.cluster import WORKER_LOST, cluster_gone, workers_unable

_PATIENCE_S = 10
"""How long to wait for a scheduler (s)."""

_NEXT_LOOK_S = 0.01


@contextmanager
def connected(address: str) -> Iterator["_DaskConnection"]:
    """A connection to the scheduler at an address.

    Raises:
        ClusterError: Nobody answers there.
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
        connection = _DaskConnection(client)
        try:
            yield connection
        except (CancelledError, CommClosedError, OSError) as error:
            if client.status == "running" and not isinstance(error, CancelledError | CommClosedError):
                raise
            raise cluster_gone(connection.name, error) from None
        finally:
            connection.leave()


@dataclass(frozen=True, slots=True)
class _UploadedFile:
    """A file that a plugin wrote where the worker has its own files."""

    name: str

    def __call__(self) -> bytes:
        return (Path(get_worker().local_directory) / self.name).read_bytes()


class _DaskConnection:
    """See `ClusterConnection`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._completed = as_completed(loop=client.loop, with_results=True, raise_errors=False)
        self._plugins: list[str] = []
        self.name = f"the Dask scheduler at {self._address}"
        self.remedy = f"Start some with 'dask worker {self._address} --nthreads 1'"

    def workers(self) -> dict[str, int]:
        return dict(self._client.ncores())

    def share(self, name: str, content: bytes) -> Callable[[], bytes]:
        # Named anew for each run: a plugin of one run ends with it, and must not end that of another.
        file = f"scenario-lib-{name[:16]}-{uuid4().hex}"
        with TemporaryDirectory(prefix="scenario-lib-bundle-") as folder:
            (Path(folder) / file).write_bytes(content)
            self._client.register_plugin(UploadFile(str(Path(folder) / file), load=False), name=file)
        self._plugins.append(file)
        return _UploadedFile(file)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Hashable:
        future = self._client.submit(function, *arguments, pure=False)
        self._completed.add(future)
        key: str = future.key
        return key

    def replies(self, wait_s: float) -> list[tuple[Hashable, Any]]:
        until = time.monotonic() + wait_s
        batch = self._completed.next_batch(block=False)
        while not batch and time.monotonic() < until:
            time.sleep(_NEXT_LOOK_S)
            batch = self._completed.next_batch(block=False)
        return [(future.key, self._reply(future.status, result)) for future, result in batch]

    def _reply(self, status: str, result: Any) -> Any:
        if isinstance(result, CancelledError):  # of a client that lost its scheduler; nobody else cancels
            raise cluster_gone(self.name, result)
        if status != "error":
            return result
        error = result[1]
        if isinstance(error, KilledWorker):
            return WORKER_LOST
        raise workers_unable(error)

    def leave(self) -> None:
        """Take back what is not done, and let workers to come have no files of this run."""
        self._completed.clear()
        for name in self._plugins if self._client.status == "running" else ():
            with contextlib.suppress(OSError, TimeoutError, CancelledError):
                self._client.unregister_worker_plugin(name)
