"""Which files an OpenDSS circuit is made of, and the digest of them all."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from scenario_lib.errors import MissingDataError
from scenario_lib.feeders.canonical import file_digest

# OpenDSS takes all of these for quotes.
_QUOTED = r"""(?:"([^"]+)"|'([^']+)'|\(([^)]+)\)|\[([^\]]+)\]|\{([^}]+)\}"""
_INCLUDE = re.compile(rf"^\s*(?:redirect|compile|buscoords)\s+(?:file\s*=\s*)?{_QUOTED}|([^\s!]+))", re.I | re.M)
_BLOCK_COMMENT = re.compile(r"^\s*/\*.*?\*/", re.S | re.M)

# Values of load shapes, curves, spectra and prices from a file: `csvfile=a.csv`, `mult=(file=a.csv)`. OpenDSS takes
# the beginning of a property's name for the whole.
_PROPERTY = r"(?:(?:pq)?cs(?:v(?:f(?:ile?|i)?)?)?|(?:sng|dbl)(?:f(?:ile?|i)?)?|file)"
_DATA = re.compile(rf"""\b{_PROPERTY}\s*=\s*{_QUOTED}|([^\s!,"')\]}}]+))""", re.I)
_COMMENT = re.compile(r"!.*$|^\s*//.*$", re.M)

# Commands whose `file=` is written, not read, or is one of `_INCLUDE`.
_NO_DATA = re.compile(r"^\s*(?:redirect|compile|buscoords|export|plot|save|show|visualize|help)\b.*$", re.I | re.M)


def circuit_files(circuit: Path) -> list[Path]:
    """The circuit file, all that it redirects to, and the data files that they name, in order of first mention.

    A path is relative to the file that names it, as in OpenDSS as long as `set datapath` is not used.

    Raises:
        MissingDataError: One of them is not there.
    """
    files: list[Path] = []
    waiting = [(circuit, True)]
    while waiting:
        path, is_script = waiting.pop(0)
        if path in files:
            continue
        if not path.is_file():
            raise MissingDataError(f"{path}: no such file, but the circuit {circuit} needs it")
        files.append(path)
        if is_script:
            text = _BLOCK_COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))
            waiting += [((path.parent / name).resolve(), True) for name in _names(_INCLUDE, text)]
            statements = _NO_DATA.sub("", _COMMENT.sub("", text))
            waiting += [((path.parent / name).resolve(), False) for name in _names(_DATA, statements)]
    return files


def _names(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Circuits come from Windows too, and OpenDSS takes either slash."""
    return ("".join(groups).replace("\\", "/") for groups in pattern.findall(text))


def circuit_digest(circuit: Path) -> str:
    """SHA-256 over the circuit's files, in order; where they lie does not matter."""
    digests = [file_digest(path) for path in circuit_files(circuit)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
