"""What becomes of a task: its result, or why there is none."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

ERROR, TIMEOUT, WORKER_DIED = "error", "timeout", "worker_died"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no result.

    Attributes:
        code: "error", "timeout" or "worker_died".
        message: Class and text of the error; nothing that differs between runs, such as addresses or durations.
    """

    code: str
    message: str


DIED_TWICE = Failure(WORKER_DIED, "its worker process ended without a result, twice; out of memory, or a crash")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Task, Result]):
    """A task with its result, or with the failure in its place.

    Attributes:
        seconds: How long it took in its worker; 0 where the worker did not live to tell.
    """

    task: Task
    result: Result | None = None
    failure: Failure | None = None
    seconds: float = 0.0


def one_line(error: BaseException) -> str:
    """Class and text of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
