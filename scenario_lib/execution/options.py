"""How tasks are run and where, and what becomes of each.

Nothing here may change what comes out of a task: its result, or why there is none.
"""

import math
import os
from dataclasses import dataclass
from typing import Generic, TypeVar

from scenario_lib.errors import InvalidSettingError

CLUSTERS = ("dask", "ray")


def available_cores() -> int:
    """Cores that this process may use, which a container or a batch system may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines that run tasks in place of processes of this one.

    Attributes:
        kind: "dask" or "ray".
        address: Of its scheduler, such as "tcp://host:8786"; None with Ray means to start one on this machine.
        wait_workers: Workers that must be connected before tasks are handed out; more may come, and go, afterwards.

    Raises:
        InvalidSettingError: No such kind, Dask without an address, or less than one worker.
    """

    kind: str
    address: str | None = None
    wait_workers: int = 1

    def __post_init__(self) -> None:
        if self.kind not in CLUSTERS:
            raise InvalidSettingError(f"backend is {self.kind!r}; expected one of {', '.join(CLUSTERS)}")
        if self.kind == "dask" and not self.address:
            raise InvalidSettingError(
                "backend dask needs the address of a scheduler, such as --scheduler tcp://host:8786; "
                "'dask scheduler' starts one and prints it"
            )
        if type(self.wait_workers) is not int or self.wait_workers < 1:
            raise InvalidSettingError(f"wait_workers is {self.wait_workers!r}; expected a whole number, at least 1")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Settings of a run of tasks.

    Attributes:
        jobs: Worker processes on this machine; a cluster has as many as it has.
        timeout_s: Longest time for one task (s); None means no limit.
        grace_s: How much longer than its limit a task in native code may run before its process is ended (s).
        cluster: Run the tasks there; None means on this machine.

    Raises:
        InvalidSettingError: Naming the option, its value, and what is allowed.
    """

    jobs: int = 1
    timeout_s: float | None = None
    grace_s: float = 5.0
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        if isinstance(self.jobs, bool) or not hasattr(self.jobs, "__index__"):
            raise InvalidSettingError(f"jobs is {self.jobs!r}; expected a whole number")
        if self.jobs < 1:
            raise InvalidSettingError(f"jobs is {self.jobs!r}; expected at least 1")
        for name in ("timeout_s", "grace_s"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
                raise InvalidSettingError(f"{name} is {value!r}; expected a finite number of seconds above 0")
        if not isinstance(self.cluster, Cluster | None):
            raise InvalidSettingError(f"cluster is {self.cluster!r}; expected a Cluster, such as Cluster('ray')")


Task = TypeVar("Task")
Result = TypeVar("Result")

ERROR, TIMEOUT, WORKER_DIED = "error", "timeout", "worker_died"


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """The reason why a task has no result.

    Attributes:
        code: "error", "timeout" or "worker_died".
        message: Class and text of the error; nothing that differs between runs, such as addresses or durations.
    """

    code: str
    message: str


DIED_TWICE = TaskFailure(WORKER_DIED, "its worker process ended without a result, twice; out of memory, or a crash")


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[Task, Result]):
    """A task with its result, or with the failure in its place.

    Attributes:
        seconds: How long it took in its worker; 0 where the worker did not live to tell.
        worker: Which of a cluster's workers it ran on, as "host:process"; empty on this machine.
    """

    task: Task
    result: Result | None = None
    failure: TaskFailure | None = None
    seconds: float = 0.0
    worker: str = ""


def one_line(error: BaseException) -> str:
    """Class and text of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
