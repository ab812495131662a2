"""All that tasks read, in one message to a cluster's workers, and what a worker does with it.

A bundle is the function and the files that it names; those that ship with an installed package are named only, and
read from the package over there. The cluster brings it to each worker, however late that comes, and tasks name it by
its digest. A worker first compares its installation with the sender's: equal identities give equal bytes. It then runs
each task in a process of its own, as a local run does: time limits, deaths and threads are the same there, and a task
that crashes takes along that process, never the cluster's worker.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import platform
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from multiprocessing.util import Finalize
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, Protocol, TypeVar, runtime_checkable

from filelock import BaseFileLock, FileLock, Timeout

from scenario_lib.errors import ClusterError
from scenario_lib.execution.options import RunOptions, TaskOutcome
from scenario_lib.execution.worker import WorkerProcess

Identity = dict[str, str]


def identity(distributions: tuple[str, ...]) -> Identity:
    """Versions of Python and of some distributions, and the digest of this package's source."""
    # From Python 3.12 on, sum() adds floats in another way.
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **{name: _version(name) for name in distributions}, "source": _source_digest()}


def difference(found: Identity, expected: Identity) -> str | None:
    """The first entry that differs, as "numpy 2.0.2 instead of 2.4.6"; None if none does."""
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            return f"{name} {found.get(name)} instead of {wanted}"
    return None


@functools.cache
def _source_digest() -> str:
    """Twelve hexadecimal digits over all source files of the package; checkouts of one version may differ."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        # Installed, the command line and the data lie inside; in a checkout, beside. Neither runs in workers.
        if not name.startswith(("pipelines/", "data/")):
            digest.update(f"{name}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "missing"


Task = TypeVar("Task", contravariant=True)
Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file that ships with an installed package.

    Attributes:
        package: Such as "scenario_lib.data".
        name: Below it, with slashes.
    """

    package: str
    name: str

    def read(self) -> bytes | None:
        """Its content; None if the installed package has none of that name."""
        path = Path(str(files(self.package))) / self.name
        return path.read_bytes() if path.is_file() else None


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file that tasks read.

    Attributes:
        name: Where it lies in the folder that the bundle is unpacked to, with slashes.
        sha256: Of its content.
        content: The bytes, or where they ship.
    """

    name: str
    sha256: str
    content: bytes | PackageFile


def shared_file(name: str, path: Path, shipped: PackageFile) -> SharedFile:
    """A file of this machine, sent only if the package has not the same one as `shipped`."""
    content = path.read_bytes()
    return SharedFile(name, hashlib.sha256(content).hexdigest(), shipped if shipped.read() == content else content)


@runtime_checkable
class PortableTask(Protocol[Task, Result]):
    """A function of tasks that can work from files in another folder."""

    def __call__(self, task: Task) -> Result: ...

    def packed(self) -> "tuple[PortableTask[Task, Result], tuple[SharedFile, ...]]":
        """The same function with all paths relative, and the files that lie at these paths."""
        ...

    def distributions(self) -> tuple[str, ...]:
        """Names of the distributions whose versions must be the same wherever it runs."""
        ...

    def at(self, folder: Path) -> "PortableTask[Task, Result]":
        """A packed function with its paths in that folder, where its files have been written."""
        ...

    def prepare(self) -> None:
        """What a worker does before its first task, however long it takes."""
        ...


@dataclass(frozen=True, slots=True)
class TaskBundle:
    """A packed function.

    Attributes:
        digest: SHA-256 of the content.
        content: Compressed; like all that goes to a cluster's workers it is for a network that you trust.
    """

    digest: str
    content: bytes


def pack(function: PortableTask[Any, Any]) -> TaskBundle:
    """The function with its files."""
    content = zlib.compress(pickle.dumps(function.packed()))
    return TaskBundle(hashlib.sha256(content).hexdigest(), content)


def unpack(content: bytes, folder: Path) -> PortableTask[Any, Any]:
    """The function, working from its files in `folder`, which are written there.

    Raises:
        ClusterError: A file is not what it was where it was packed, or the function's module is missing here.
    """
    try:
        function, files = pickle.loads(zlib.decompress(content))
    except (ImportError, AttributeError) as error:
        raise ClusterError(f"what the tasks run is not installed: {error}") from None
    for file in files:
        path = folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_content(file))
    moved: PortableTask[Any, Any] = function.at(folder)
    return moved


def _content(file: SharedFile) -> bytes:
    content = file.content.read() if isinstance(file.content, PackageFile) else file.content
    if content is None or hashlib.sha256(content).hexdigest() != file.sha256:
        raise ClusterError(f"{file.name} is not the same file as where the build was started")
    return content


_IDLE_S = 60.0
"""A cluster's workers live for weeks; their processes for our tasks need not."""

_BUNDLES_KEPT = 8

_BEFORE_CHILDREN = 1
"""A nanny's worker runs no `atexit` functions, and waits for its children; finalizers of this priority come before."""


@dataclass(frozen=True, slots=True)
class TaskEnvelope:
    """The message that goes to a worker with each task.

    Attributes:
        digest: Of the bundle.
        read: Gives the bundle's content on the worker, to which the cluster has brought it.
        expected: Identity of the installation where the run was started.
    """

    digest: str
    read: Callable[[], bytes]
    expected: Identity
    options: RunOptions


@dataclass(frozen=True, slots=True)
class TaskRefused:
    """The worker cannot give the results that this installation would.

    Attributes:
        reason: The worker's host, and what differs.
    """

    reason: str


Reply = TaskOutcome[Any, Any] | TaskRefused


def run_envelope(envelope: TaskEnvelope, task: Any) -> Reply:
    """One task, on whatever machine this is."""
    refused = refusal(envelope.expected)
    if refused is not None:
        return refused
    try:
        function = _function(envelope)
    except (ClusterError, OSError) as error:
        return TaskRefused(f"{platform.node()}: {error}")
    with _borrowed_worker() as worker:
        return replace(worker.run(function, task, envelope.options), worker=f"{platform.node()}:{os.getpid()}")


def refusal(expected: Identity) -> TaskRefused | None:
    """Why this installation must not take part, if so."""
    distributions = tuple(name for name in expected if name not in ("python", "source"))
    different = difference(identity(distributions), expected)
    return None if different is None else TaskRefused(f"{platform.node()}: {different}")


_functions: dict[str, PortableTask[Any, Any]] = {}
_unpacking = threading.Lock()


def _function(envelope: TaskEnvelope) -> PortableTask[Any, Any]:
    """The envelope's function, unpacked by the first task of its run here."""
    with _unpacking:
        if envelope.digest not in _functions:
            function = unpack(envelope.read(), _folder() / envelope.digest)
            _prepare(function)
            _forget_oldest()
            _functions[envelope.digest] = function
        return _functions[envelope.digest]


def _forget_oldest() -> None:
    """Keep the latest of many runs' bundles; a run that is not over after all has its own read again."""
    while len(_functions) >= _BUNDLES_KEPT:
        oldest = next(iter(_functions))
        del _functions[oldest]
        shutil.rmtree(_folder() / oldest, ignore_errors=True)


def _prepare(function: PortableTask[Any, Any]) -> None:
    with _borrowed_worker() as worker:
        failure = worker.run(_call_prepare, function, RunOptions()).failure
    if failure is not None:
        raise ClusterError(f"cannot prepare for the tasks: {failure.message}")


def _call_prepare(function: PortableTask[Any, Any]) -> None:
    function.prepare()


_PREFIX, _IN_USE = "scenario-lib-bundles-", "in-use"


@functools.cache
def _folder() -> Path:
    """Where this process unpacks bundles, removed when it ends, or by the next one if it is killed."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_IN_USE}"):
        with (
            contextlib.suppress(OSError, Timeout),
            FileLock(lock, timeout=0),
        ):  # the system releases it with its process
            shutil.rmtree(lock.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _held.append(FileLock(folder / _IN_USE))
    _held[0].acquire()
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=_BEFORE_CHILDREN)
    return folder


_held: list[BaseFileLock] = []
_workers: list[WorkerProcess] = []
_idle: LifoQueue[WorkerProcess] = LifoQueue()


@contextmanager
def _borrowed_worker() -> Iterator[WorkerProcess]:
    """A process that nobody else uses meanwhile: a cluster's worker may run several tasks at a time, in threads."""
    try:
        worker = _idle.get_nowait()
    except Empty:
        worker = WorkerProcess(_IDLE_S)
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
