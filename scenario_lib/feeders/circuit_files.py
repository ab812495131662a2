"""Which files an OpenDSS circuit is made of, and the digest of them all."""

import hashlib
import re
from pathlib import Path

from scenario_lib.errors import MissingDataError
from scenario_lib.feeders.canonical import file_digest

# OpenDSS takes all of these for quotes.
_NAME = r"""(?:"([^"]+)"|'([^']+)'|\(([^)]+)\)|\[([^\]]+)\]|\{([^}]+)\}|([^\s!]+))"""
_INCLUDE = re.compile(rf"^\s*(?:redirect|compile|buscoords)\s+(?:file\s*=\s*)?{_NAME}", re.I | re.M)
_BLOCK_COMMENT = re.compile(r"^\s*/\*.*?\*/", re.S | re.M)


def circuit_files(circuit: Path) -> list[Path]:
    """The circuit file and all that it redirects to, in order of first mention.

    Raises:
        MissingDataError: One of them is not there.
    """
    files: list[Path] = []
    waiting = [circuit]
    while waiting:
        path = waiting.pop(0)
        if path in files:
            continue
        if not path.is_file():
            raise MissingDataError(f"{path}: no such file, but the circuit {circuit} needs it")
        files.append(path)
        waiting += [(path.parent / name).resolve() for name in included_names(path)]
    return files


def included_names(path: Path) -> list[str]:
    """The files that one circuit file redirects to, as they are named there but with slashes."""
    text = _BLOCK_COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
    # Circuits come from Windows too, and OpenDSS takes either slash.
    return ["".join(groups).replace("\\", "/") for groups in _INCLUDE.findall(text)]


def circuit_digest(circuit: Path) -> str:
    """SHA-256 over the circuit's files, in order; where they lie does not matter."""
    digests = [file_digest(path) for path in circuit_files(circuit)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
