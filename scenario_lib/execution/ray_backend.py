"""Ray: joblib's backend on a running cluster, or on one started for this run."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import ray
from joblib import Parallel, parallel_config
from ray.exceptions import OutOfMemoryError, RayActorError, WorkerCrashedError
from ray.util.joblib import register_ray

from scenario_lib.errors import ClusterError
from scenario_lib.execution.cluster import Pool

_PATIENCE_S = 10
"""How long to wait for a cluster to answer (s)."""

_ROUND = 8
"""Calls per core and round: Ray's backend returns lists only, and a round ends with its last call."""


@contextmanager
def connected(address: str | None) -> Iterator[Pool]:
    """A connection to the cluster at an address, or a cluster on this machine that ends with it.

    Raises:
        ClusterError: Nobody answers there.
    """
    try:
        _require_answer(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error}); start one with 'ray start --head', and give its address "
            f"as --scheduler, or leave --scheduler away to start one on this machine"
        ) from None
    register_ray()
    try:
        cores = int(ray.cluster_resources().get("CPU", 0))
        # With one job joblib runs the calls in this process.
        with parallel_config("ray", n_jobs=max(2, cores)), Parallel(batch_size=1) as parallel:
            yield Pool(
                cores,
                lambda calls: _run(parallel, _ROUND * cores, calls),
                (RayActorError, WorkerCrashedError, OutOfMemoryError),
            )
    finally:
        ray.shutdown()


def _require_answer(address: str | None) -> None:
    """Ray itself knocks for minutes where nobody is."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=_PATIENCE_S).close()


def _run(parallel: Parallel, n_calls: int, calls: Iterable[Any]) -> Iterator[Any]:
    waiting = iter(calls)
    while calls_of_round := list(islice(waiting, n_calls)):
        yield from parallel(calls_of_round)
