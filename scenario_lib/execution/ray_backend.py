"""Ray: remote functions on a running cluster, or on one started for this run; files by its store of objects."""

import socket
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import (
    NodeDiedError,
    OutOfMemoryError,
    RaySystemError,
    RayTaskError,
    WorkerCrashedError,
)

from scenario_lib.errors import ClusterError
from scenario_lib.execution.cluster import WORKER_LOST, cluster_gone, workers_unable

_PATIENCE_S = 10
"""How long to wait for a cluster to answer (s)."""

_TRIES_AGAIN = 2
"""How often Ray itself tries a task again whose worker or machine is lost."""


@contextmanager
def connected(address: str | None) -> Iterator["_RayConnection"]:
    """A connection to the cluster at an address, or a cluster on this machine that ends with it.

    Raises:
        ClusterError: Nobody answers there, or it ended meanwhile.
    """
    try:
        _require_answer(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error}); start one with 'ray start --head', and give its address "
            f"as --scheduler, or leave --scheduler away to start one on this machine"
        ) from None
    try:
        connection = _RayConnection(address)
        try:
            yield connection
        except (ConnectionError, RaySystemError) as error:
            raise cluster_gone(connection.name, error) from None
    finally:
        ray.shutdown()


def _require_answer(address: str | None) -> None:
    """Ray itself knocks for minutes where nobody is."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=_PATIENCE_S).close()


@dataclass(frozen=True, slots=True)
class _StoredObject:
    """Bytes in Ray's store of objects, which come to a machine with the first task that asks."""

    reference: Any

    def __call__(self) -> bytes:
        content: bytes = ray.get(self.reference)
        return content


class _RayConnection:
    """See `ClusterConnection`; what Dask calls a worker is a machine here."""

    def __init__(self, address: str | None) -> None:
        self._call = ray.remote(num_cpus=1, max_retries=_TRIES_AGAIN)(_called)
        self._waiting: dict[Any, None] = {}
        self.name = "the Ray cluster" + (f" at {address}" if address else "")
        self.remedy = "Start some with 'ray start --address=HOST:6379'"

    def workers(self) -> dict[str, int]:
        cores = {}
        for node in ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                cores[f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"] = int(node["Resources"]["CPU"])
        return cores

    def share(self, name: str, content: bytes) -> Callable[[], bytes]:
        del name
        return _StoredObject(ray.put(content))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Hashable:
        handle: Hashable = self._call.remote(function, *arguments)
        self._waiting[handle] = None
        return handle

    def replies(self, wait_s: float) -> list[tuple[Hashable, Any]]:
        waiting = list(self._waiting)
        if not waiting:
            return []
        first, _ = ray.wait(waiting, timeout=wait_s)
        done = ray.wait(waiting, num_returns=len(waiting), timeout=0)[0] if first else []
        for handle in done:
            del self._waiting[handle]
        return [(handle, _reply(handle)) for handle in done]


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Runs in a worker of Ray's."""
    return function(*arguments)


def _reply(handle: Any) -> Any:
    try:
        return ray.get(handle)
    except (WorkerCrashedError, OutOfMemoryError, NodeDiedError):
        return WORKER_LOST
    except RayTaskError as error:
        raise workers_unable(error.cause or error) from None
