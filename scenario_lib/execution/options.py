"""How tasks are run, and where; nothing here may change what comes out."""

import math
from dataclasses import dataclass

from scenario_lib.errors import InvalidSettingError

CLUSTERS = ("dask", "ray")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Machines that run tasks in place of processes of this one.

    Attributes:
        kind: "dask" or "ray".
        address: Of its scheduler, such as "tcp://host:8786"; None with Ray means to start one on this machine.

    Raises:
        InvalidSettingError: No such kind, or Dask without an address.
    """

    kind: str
    address: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in CLUSTERS:
            raise InvalidSettingError(f"backend is {self.kind!r}; expected one of {', '.join(CLUSTERS)}")
        if self.kind == "dask" and not self.address:
            raise InvalidSettingError(
                "backend dask needs the address of a scheduler, such as --scheduler tcp://host:8786; "
                "'dask scheduler' starts one and prints it"
            )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How tasks are run.

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
