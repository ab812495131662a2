"""Versions of what a library's figures depend on.

Where a library's figures are from: the machine that its build log names, passed on to libraries made from it.
"""

import datetime
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from scenario_lib._files import read_json, write_json
from scenario_lib.errors import LibraryError
from scenario_lib.library.layout import BUILD_LOG

# OpenDSS itself comes inside this distribution; asking for its version by name does not load it.
_DISTRIBUTIONS = {
    "scenario_lib": "scenario-lib",
    "numpy": "numpy",
    "openg2g": "openg2g",
    "opendss": "dss-python-backend",
    "numba": "numba",  # it makes the compiled engine's machine code
}


def distributions() -> tuple[str, ...]:
    """Names of what figures depend on, as package indices know them."""
    return tuple(_DISTRIBUTIONS.values())


def versions() -> dict[str, str]:
    """Installed versions by name."""
    return {name: _version(distribution) for name, distribution in _DISTRIBUTIONS.items()}


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


_LISTS = ("cpu_features", "blas")


def built_on(library: Path) -> dict[str, Any]:
    """What a library's build log says of its machine; empty if there is no such log, or it cannot be read."""
    try:
        log = read_json(library / BUILD_LOG)
    except LibraryError:
        return {}
    found = log.get("machine") if isinstance(log, dict) else None
    facts = found if isinstance(found, dict) else {}
    return {name: fact for name, fact in facts.items() if name not in _LISTS or isinstance(fact, list)}


def built_on_all(libraries: Sequence[Path]) -> dict[str, Any]:
    """The same for several libraries: facts that they share, and every processor feature that one of them names."""
    machines = [built_on(library) for library in libraries]
    first, *others = machines
    shared = {name: fact for name, fact in first.items() if all(other.get(name) == fact for other in others)}
    lists = {name for machine in machines for name in machine if name in _LISTS}
    unions = {name: sorted({str(f) for machine in machines for f in machine.get(name, ())}) for name in sorted(lists)}
    return {**shared, **unions}


def write_origin(folder: Path, sources: Sequence[Path], done: dict[str, Any]) -> None:
    """Write the build log of a library that was made from others: what was done, when, and whose figures these are."""
    finished = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    paths = [str(source) for source in sources]
    write_json(folder / BUILD_LOG, {**done, "sources": paths, "finished": finished, "machine": built_on_all(sources)})
