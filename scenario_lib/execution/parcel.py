"""All that tasks read, in one message: the function, and the files that it names.

Files that ship with an installed package are not sent but named, and read from the package over there. The digest of
a parcel says what is in it, so it travels to each worker once, and tasks after that only name it.
"""

import hashlib
import pickle
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenario_lib.errors import ClusterError
from scenario_lib.execution.portable import PackageFile, Portable, SharedFile


@dataclass(frozen=True, slots=True)
class Parcel:
    """A packed function.

    Attributes:
        digest: SHA-256 of the content.
        content: Compressed; like all that goes to a cluster's workers it is for a network that you trust.
    """

    digest: str
    content: bytes


def pack(function: Portable[Any, Any]) -> Parcel:
    """The function with its files."""
    content = zlib.compress(pickle.dumps(function.packed()))
    return Parcel(hashlib.sha256(content).hexdigest(), content)


def unpack(content: bytes, folder: Path) -> Portable[Any, Any]:
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
    moved: Portable[Any, Any] = function.at(folder)
    return moved


def _content(file: SharedFile) -> bytes:
    content = file.content.read() if isinstance(file.content, PackageFile) else file.content
    if content is None or hashlib.sha256(content).hexdigest() != file.sha256:
        raise ClusterError(f"{file.name} is not the same file as where the build was started")
    return content
