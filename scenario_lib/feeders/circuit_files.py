"""Which files an OpenDSS circuit is made of, and the digest of them all.

Where a feeder's buses are drawn: `bus_coordinates.csv` beside its circuit, with the columns bus, x and y.
"""

import csv
import hashlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scenario_lib._files import file_digest, read_text, require_regular
from scenario_lib._values import few
from scenario_lib.errors import DataFileError, MissingDataError


def shortened(name: str, least: int) -> str:
    """A pattern for a name of OpenDSS, which may be cut down to its first `least` letters."""
    return "|".join(re.escape(name[:length]) for length in range(len(name), least - 1, -1))


# OpenDSS takes all of these for quotes.
_QUOTED = r"""(?:"([^"]+)"|'([^']+)'|\(([^)]+)\)|\[([^\]]+)\]|\{([^}]+)\}"""
_COORDINATES = "|".join((shortened("buscoords", 2), shortened("latlongcoords", 2), shortened("giscoords", 2)))
_SCRIPTS = "|".join((shortened("redirect", 3), shortened("compile", 1)))
_INCLUDE = re.compile(
    rf"^\s*(?:({_SCRIPTS})|{_COORDINATES})(?:\s*[=,]\s*|\s+)(?:file\s*=\s*)?{_QUOTED}|([^\s!]+))", re.I | re.M
)
_BLOCK_COMMENT = re.compile(r"^\s*/\*.*?\*/", re.S | re.M)

# Values of load shapes, curves, spectra and prices from a file: `csvfile=a.csv`, `mult=(file=a.csv)`. OpenDSS takes
# the beginning of a property's name for the whole.
_PROPERTY = r"(?:(?:pq)?cs(?:v(?:f(?:ile?|i)?)?)?|(?:sng|dbl)(?:f(?:ile?|i)?)?|file)"
_DATA = re.compile(rf"""\b{_PROPERTY}\s*=\s*{_QUOTED}|([^\s!,"')\]}}]+))""", re.I)
_COMMENT = re.compile(r"!.*$|^\s*//.*$", re.M)

# Commands whose `file=` is written, not read, or is one of `_INCLUDE`.
_NO_DATA = re.compile(
    r"^\s*(?:redirect|compile|buscoords|export|plot|save|show|visualize|help|summary)\b.*$", re.I | re.M
)


def circuit_files(circuit: Path) -> list[Path]:
    """The circuit file, all that it redirects to, and the data files that they name, in order of first mention.

    A path is relative to the file that names it, as in OpenDSS as long as `set datapath` is not used.

    Raises:
        MissingDataError: One of them is not there.
        DataFileError: One of them is neither in the circuit's folder nor beside it (see `circuit_home`), or includes
            itself.
    """
    return [path for path, _ in circuit_parts(circuit)]


def circuit_parts(circuit: Path) -> list[tuple[Path, bool]]:
    """The circuit's files, and whether each is a script; as `circuit_files`."""
    parts: dict[Path, bool] = {}
    includes: dict[Path, list[Path]] = {}
    waiting = [(circuit, True)]
    while waiting:
        path, is_script = waiting.pop(0)
        if path in parts:
            continue
        _require_own_file(path, circuit)
        parts[path] = is_script
        if is_script:
            named = [((path.parent / name).resolve(), script) for name, script in named_files(path)]
            includes[path.resolve()] = [target for target, script in named if script]
            waiting += named
    _refuse_cycle(includes)
    return list(parts.items())


def circuit_home(circuit: Path) -> Path:
    """The folder that holds all files of a circuit: the one above its own, where circuits of a collection share files.

    A circuit's own folder is its home where only the root of the file system is above.
    """
    folder = circuit.parent.resolve()
    return folder if folder.parent == folder.parent.parent else folder.parent


def _require_own_file(path: Path, circuit: Path) -> None:
    if not path.is_file():
        require_regular(path)
        raise MissingDataError(f"{path}: no such file, but the circuit {circuit} needs it")
    home = circuit_home(circuit)
    if path != circuit and not path.resolve().is_relative_to(home):
        raise DataFileError(
            f"{circuit}: it includes {path}, which is outside {home}, the folder above the circuit's own; copy that "
            f"file there, or into the circuit's folder, and name the copy"
        )


def _refuse_cycle(includes: dict[Path, list[Path]]) -> None:
    """Take away scripts that include none of those left; what stays includes itself, and OpenDSS would not end."""
    left = dict(includes)
    while ended := [path for path, targets in left.items() if not any(target in left for target in targets)]:
        for path in ended:
            del left[path]
    if left:
        names = few(path.name for path in left)
        raise DataFileError(
            f"{next(iter(left))}: it includes itself, if only through others ({names}); take one redirect out"
        )


def named_files(path: Path) -> list[tuple[str, bool]]:
    """The files that one circuit file names, as they stand there, and whether each is a circuit file too."""
    text = _BLOCK_COMMENT.sub("", read_text(path, errors="replace"))
    statements = _NO_DATA.sub("", _COMMENT.sub("", text))
    included = [(_slashed(names), bool(script)) for script, *names in _INCLUDE.findall(text)]
    return [*included, *((_slashed(names), False) for names in _DATA.findall(statements))]


def _slashed(names: Iterable[str]) -> str:
    """Circuits come from Windows too, and OpenDSS takes either slash."""
    return "".join(names).replace("\\", "/")


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


FILE_NAME = "bus_coordinates.csv"
_COLUMNS = ["bus", "x", "y"]

Position = tuple[float, float]


def read_bus_coordinates(circuit: Path) -> dict[str, Position] | None:
    """Positions (x, y) by bus, lower case, in arbitrary units; None without a file beside the circuit.

    Raises:
        DataFileError: Not such a file; names the file and the line.
    """
    path = circuit.parent / FILE_NAME
    if not path.is_file():
        require_regular(path)
        return None
    try:
        lines = list(csv.reader(read_text(path).splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataFileError(f"{path}: not a CSV file ({error})") from None
    if not lines or lines[0] != _COLUMNS:
        raise DataFileError(f"{path}: first line is {lines[:1]}; expected {','.join(_COLUMNS)}")
    return dict(_position(line, f"{path}, line {number}") for number, line in enumerate(lines[1:], start=2))


def _position(line: list[str], place: str) -> tuple[str, Position]:
    try:
        bus, x, y = line
        position = (float(x), float(y))
    except ValueError:
        raise DataFileError(f"{place}: {line}; expected a bus and two numbers") from None
    if not all(map(math.isfinite, position)):
        raise DataFileError(f"{place}: {line}; expected finite numbers")
    return bus.lower(), position
