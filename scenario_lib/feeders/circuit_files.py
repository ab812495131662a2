"""Which files an OpenDSS circuit is made of, and the digest of them all."""

import hashlib
import re
from dataclasses import dataclass
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
        text = _BLOCK_COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
        # Circuits come from Windows too, and OpenDSS takes either slash.
        names = ["".join(groups).replace("\\", "/") for groups in _INCLUDE.findall(text)]
        waiting += [(path.parent / name).resolve() for name in names]
    return files


def circuit_digest(circuit: Path) -> str:
    """SHA-256 over the circuit's files, in order; where they lie does not matter."""
    digests = [file_digest(path) for path in circuit_files(circuit)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Known:
    files: tuple[Path, ...]
    stamps: tuple[tuple[int, ...], ...]
    digest: str


_known: dict[Path, _Known] = {}


def current_digest(circuit: Path) -> str:
    """As `circuit_digest`; files are read again only where one of them was changed or replaced since.

    Raises:
        MissingDataError: One of them is not there.
    """
    known = _known.get(circuit)
    if known is None or known.stamps != _stamps(known.files):
        # Stamps first: what changes while it is read is read again the next time.
        files = tuple(circuit_files(circuit))
        known = _known[circuit] = _Known(files, _stamps(files), circuit_digest(circuit))
    return known.digest


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, ...], ...]:
    """What differs once a file is written or replaced; nothing for one that is gone."""
    stats = [path.stat() for path in files if path.is_file()]
    return tuple((stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino) for stat in stats)
