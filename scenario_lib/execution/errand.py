"""What runs on a cluster's workers: unpack the parcel once, then do each task in a process of its own.

The process is that of a local run, so that time limits, deaths and threads are the same there: a candidate that
crashes takes along that process, and never the cluster's worker.
"""

import functools
import platform
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any

from scenario_lib.errors import ClusterError
from scenario_lib.execution.identity import Identity, difference, identity
from scenario_lib.execution.options import RunOptions
from scenario_lib.execution.outcomes import Outcome
from scenario_lib.execution.parcel import unpack
from scenario_lib.execution.portable import Portable
from scenario_lib.execution.worker import Worker

_IDLE_S = 60.0
"""A cluster's workers live for weeks; their processes for our tasks need not."""

_PARCELS_KEPT = 8

_BEFORE_CHILDREN = 1
"""A nanny's worker runs no `atexit` functions, and waits for its children; finalizers of this priority come before."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What goes to a worker with each task.

    Attributes:
        digest: Of the parcel.
        content: The parcel; None if the worker should have it.
        expected: Identity of the installation where the run was started.
    """

    digest: str
    content: bytes | None
    expected: Identity
    options: RunOptions


@dataclass(frozen=True, slots=True)
class Lacking:
    """The worker has not got the parcel: the task has to be sent again, with it."""

    task: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker cannot give the results that this installation would.

    Attributes:
        reason: The worker's host, and what differs.
    """

    reason: str


Reply = Outcome[Any, Any] | Lacking | Refused


def run_errand(errand: Errand, task: Any) -> Reply:
    """One task, on whatever machine this is."""
    refused = refusal(errand.expected)
    if refused is not None:
        return refused
    try:
        function = _function(errand)
        if function is None:
            return Lacking(task)
    except ClusterError as error:
        return Refused(f"{platform.node()}: {error}")
    with _borrowed_worker() as worker:
        return worker.run(function, task, errand.options)


def refusal(expected: Identity) -> Refused | None:
    """Why this installation must not take part, if so."""
    distributions = tuple(name for name in expected if name not in ("python", "source"))
    different = difference(identity(distributions), expected)
    return None if different is None else Refused(f"{platform.node()}: {different}")


_functions: dict[str, Portable[Any, Any]] = {}
_unpacking = threading.Lock()


def _function(errand: Errand) -> Portable[Any, Any] | None:
    """The errand's function, unpacked by the first task that brings it."""
    with _unpacking:
        if errand.digest not in _functions and errand.content is not None:
            function = unpack(errand.content, _folder() / errand.digest)
            _prepare(function)
            _forget_oldest()
            _functions[errand.digest] = function
    return _functions.get(errand.digest)


def _forget_oldest() -> None:
    """Of many runs' parcels keep the latest; a run that is not over after all sends its own again."""
    while len(_functions) >= _PARCELS_KEPT:
        oldest = next(iter(_functions))
        del _functions[oldest]
        shutil.rmtree(_folder() / oldest, ignore_errors=True)


def _prepare(function: Portable[Any, Any]) -> None:
    with _borrowed_worker() as worker:
        failure = worker.run(_call_prepare, function, RunOptions()).failure
    if failure is not None:
        raise ClusterError(f"cannot prepare for the tasks: {failure.message}")


def _call_prepare(function: Portable[Any, Any]) -> None:
    function.prepare()


@functools.cache
def _folder() -> Path:
    """Where this process unpacks parcels, removed when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="scenario-lib-parcels-"))
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=_BEFORE_CHILDREN)
    return folder


_workers: list[Worker] = []
_idle: LifoQueue[Worker] = LifoQueue()


@contextmanager
def _borrowed_worker() -> Iterator[Worker]:
    """A process that nobody else uses meanwhile: a cluster's worker may run several tasks at a time, in threads."""
    try:
        worker = _idle.get_nowait()
    except Empty:
        worker = Worker(_IDLE_S)
        _workers.append(worker)
    try:
        yield worker
    finally:
        _idle.put(worker)


def end_workers() -> None:
    """End the processes that tasks ran in; the next task starts another one."""
    for worker in _workers:
        worker.close()


Finalize(None, end_workers, exitpriority=_BEFORE_CHILDREN)
