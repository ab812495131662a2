"""What the command line prints where: results to stdout, everything else to stderr, as much as was asked for."""

import json
import logging
import math
import sys
from collections.abc import Iterable
from typing import Any

import click

_LEVELS = {
    "scenario_lib": (logging.WARNING, logging.INFO, logging.DEBUG),
    "openg2g": (logging.WARNING, logging.WARNING, logging.INFO),
}
"""By logger, by how often --verbose was given; --quiet leaves errors only."""


class _ToStderr(logging.Handler):
    """Log lines as the command line's other messages look; information is a plain line."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        click.echo(f"{prefix}{record.getMessage()}", err=True)


_HANDLER = _ToStderr()


def configure_logging(quiet: bool, verbose: int) -> None:
    """Let the logs of this library and of openg2g go to stderr."""
    for name, levels in _LEVELS.items():
        logger = logging.getLogger(name)
        logger.setLevel(logging.ERROR if quiet else levels[min(verbose, len(levels) - 1)])
        logger.addHandler(_HANDLER)


def progress_bar(**options: Any) -> Any:
    """tqdm's bar on stderr, of the terminal's width; none with --quiet."""
    from tqdm import tqdm

    context = click.get_current_context(silent=True)
    quiet = context is not None and bool(context.find_root().params.get("quiet"))
    return tqdm(**options, dynamic_ncols=True, file=sys.stderr, disable=quiet)


def echo_facts(facts: dict[str, Any], lines: Iterable[str], as_json: bool) -> None:
    """Print the same facts as JSON or as text."""
    if as_json:
        echo_json(facts)
    else:
        click.echo("\n".join(lines))


def echo_json(value: Any) -> None:
    """Print strict JSON to stdout; a number that is not finite becomes null."""
    click.echo(json.dumps(_finite(value), indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
