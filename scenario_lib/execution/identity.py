"""What an installation consists of, as far as results depend on it: two with equal identities give equal bytes."""

import functools
import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

Identity = dict[str, str]


def identity(distributions: tuple[str, ...]) -> Identity:
    """Versions of Python and of some distributions, and the digest of this package's source."""
    # From Python 3.12 on, sum() adds floats in another way.
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **{name: _version(name) for name in distributions}, "source": source_digest()}


def difference(found: Identity, expected: Identity) -> str | None:
    """The first entry that differs, as "numpy 2.0.2 instead of 2.4.6"; None if none does."""
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            return f"{name} {found.get(name)} instead of {wanted}"
    return None


@functools.cache
def source_digest() -> str:
    """Twelve hexadecimal digits over all source files of the package; checkouts of one version may differ."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        # Installed, the command line and the data lie inside; in a checkout, beside. Neither runs in workers.
        if not name.startswith(("pipelines/", "data/")):
            digest.update(f"{name}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "missing"
