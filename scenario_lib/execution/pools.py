"""Connections to clusters, and what to expect of them; the only place that knows one kind from another."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from scenario_lib.errors import MissingExtraError
from scenario_lib.execution.options import Cluster


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
        module = import_module(f"scenario_lib.execution.on_{cluster.kind}")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"backend {cluster.kind} needs {error.name}: pip install 'scenario-lib[{cluster.kind}]'"
        ) from None
    pool: AbstractContextManager[Pool] = module.connected(cluster.address)
    return pool
