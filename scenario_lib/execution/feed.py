"""The tasks of a run, read as workers become free, and which of them are under way."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic

from scenario_lib.execution.outcomes import Task


class Feed(Generic[Task]):
    """Tasks handed out one after another; those to be done again come first."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = iter(tasks)
        self._again: deque[Task] = deque()
        self._under_way: list[Task] = []
        self._ended = False

    @property
    def exhausted(self) -> bool:
        """Nothing is left to hand out."""
        return self._ended and not self._again

    def __iter__(self) -> Iterator[Task]:
        while True:
            if self._again:
                task = self._again.popleft()
            else:
                try:
                    task = next(self._tasks)
                except StopIteration:
                    self._ended = True
                    return
            self._under_way.append(task)
            yield task

    def finished(self, task: Task) -> None:
        """A task has its outcome."""
        self._under_way.remove(task)

    def again(self, task: Task) -> None:
        """A task under way has to be handed out once more."""
        self._under_way.remove(task)
        self._again.append(task)

    def take_back(self) -> list[Task]:
        """The tasks under way, which from now on are not."""
        taken, self._under_way = self._under_way, []
        return taken
