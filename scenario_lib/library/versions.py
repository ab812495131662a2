"""Versions of what a library's figures depend on."""

from importlib.metadata import PackageNotFoundError, version

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
