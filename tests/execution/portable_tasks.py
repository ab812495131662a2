"""Functions that can go to a cluster; in a module of their own, which workers import."""

import hashlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scenario_lib.execution.task_bundle import PackageFile, SharedFile, shared_file

SHIPPED = PackageFile("scenario_lib.data", "README.md")


@dataclass(frozen=True)
class Plain:
    """A function without files."""

    function: Callable[[Any], Any]

    def __call__(self, task: Any) -> Any:
        return self.function(task)

    def packed(self) -> tuple["Plain", tuple[SharedFile, ...]]:
        return self, ()

    def distributions(self) -> tuple[str, ...]:
        return ("numpy", "joblib")

    def at(self, folder: Path) -> "Plain":
        return self

    def prepare(self) -> None:
        pass


@dataclass(frozen=True)
class Reading(Plain):
    """Says what it reads and where: task, content of its file, its folder, and the process that was sent the task."""

    function: Callable[[Any], Any] = len
    path: Path = Path()

    def __call__(self, task: Any) -> tuple[Any, str, str, int]:
        time.sleep(0.1)
        return task, self.path.read_text(), str(self.path.parent), os.getppid()

    def packed(self) -> tuple["Reading", tuple[SharedFile, ...]]:
        return replace(self, path=Path("read/me.txt")), (shared_file("read/me.txt", self.path, SHIPPED),)

    def at(self, folder: Path) -> "Reading":
        return replace(self, path=folder / self.path)


class KillsItsHost(Plain):
    """Ends the cluster's worker itself, not the process that the worker runs tasks in."""

    def at(self, folder: Path) -> "KillsItsHost":
        os.kill(os.getpid(), signal.SIGKILL)
        return self


class CannotPrepare(Plain):
    def prepare(self) -> None:
        raise FileNotFoundError("no compiler")


@dataclass(frozen=True)
class Altered(Plain):
    """Its file ships with another content over there."""

    def packed(self) -> tuple["Altered", tuple[SharedFile, ...]]:
        return self, (SharedFile("specs/trace.csv", hashlib.sha256(b"other").hexdigest(), SHIPPED),)
