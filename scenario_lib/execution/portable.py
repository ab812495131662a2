"""What a run does with each task, in a form that can go to machines without our files."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

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
        name: Where it lies in the folder that the parcel is unpacked to, with slashes.
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
class Portable(Protocol[Task, Result]):
    """A function of tasks that can work from files in another folder."""

    def __call__(self, task: Task) -> Result: ...

    def packed(self) -> "tuple[Portable[Task, Result], tuple[SharedFile, ...]]":
        """The same function with all paths relative, and the files that lie at these paths."""
        ...

    def distributions(self) -> tuple[str, ...]:
        """Names of the distributions whose versions must be the same wherever it runs."""
        ...

    def at(self, folder: Path) -> "Portable[Task, Result]":
        """A packed function with its paths in that folder, where its files have been written."""
        ...

    def prepare(self) -> None:
        """What a worker does before its first task, however long it takes."""
        ...
