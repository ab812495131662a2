"""What the command line prints where: results to stdout, everything else to stderr, as much as was asked for.

Every command loads this file, the group for its help as well; it loads no engine.
"""

import json
import logging
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from scenario_lib.errors import InvalidSettingError

if TYPE_CHECKING:
    from scenario_lib.screening.build import BuildProgress


_LEVELS = {
    "scenario_lib": (logging.INFO, logging.DEBUG, logging.DEBUG),
    "openg2g": (logging.WARNING, logging.WARNING, logging.INFO),
}
"""By logger, by how often --verbose was given; --quiet leaves errors only."""

_AT_FIRST_PROGRESS_S = 0.001
"""Any positive delay keeps tqdm from drawing a bar as soon as it is made."""


class _ToStderr(logging.Handler):
    """Log lines as the command line's other messages look; information is a plain line."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return f"{prefix}{record.getMessage()}"


_HANDLER = _ToStderr()


def configure_logging(quiet: bool, verbose: int) -> None:
    """Let the logs of this library and of openg2g go to stderr."""
    _HANDLER.setFormatter(_Plain())
    for name, levels in _LEVELS.items():
        logger = logging.getLogger(name)
        logger.setLevel(logging.ERROR if quiet else levels[min(verbose, len(levels) - 1)])
        logger.addHandler(_HANDLER)


def log_with_times() -> None:
    """Give each line of the log its time, as a log file wants it."""
    _HANDLER.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))


def progress_bar(**options: Any) -> Any:
    """tqdm's bar on stderr, of the terminal's width; none with --quiet, and none in a file, where it fills lines.

    It appears with the first progress, so that a command that is refused shows its error and nothing else.
    """
    from tqdm import tqdm

    return tqdm(**options, delay=_AT_FIRST_PROGRESS_S, dynamic_ncols=True, file=sys.stderr, disable=_quiet() or None)


def _quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("quiet"))


def echo_facts(facts: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print the same facts as JSON or as text."""
    if as_json:
        echo_json(facts)
    else:
        click.echo("\n".join(lines))


def echo_json(value: Any) -> None:
    """Print strict JSON to stdout."""
    click.echo(strict_json(value))


def strict_json(value: Any) -> str:
    """Indented JSON; a number that is not finite becomes null."""
    return json.dumps(_finite(value), indent=1, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def parse_seeds(text: str | None) -> tuple[int, ...] | None:
    """Seeds from "7,1007"."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidSettingError(f"--seeds is {text!r}; expected whole numbers with commas, such as 7,1007") from None


def name_and_value(text: str, option: str) -> tuple[str, Any]:
    """Name and JSON value from "ramp_up_prob=0.3"; a bare word is a text.

    Raises:
        InvalidSettingError: Not of that form; the message names the option.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidSettingError(f"{option} is {text!r}; expected NAME=VALUE, such as ramp_up_prob=0.3")
    try:
        return name.strip(), json.loads(value)
    except json.JSONDecodeError:
        if value.replace("-", "_").isidentifier():
            return name.strip(), value
        raise InvalidSettingError(f'{option} {name}: {value!r} is not a value; write 0.3, true or ["flat"]') from None


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines with columns of one width: the first to the left, all others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def show_progress(bar: Any, progress: "BuildProgress") -> None:
    """How far a build is, on its bar."""
    bar.total = progress.total
    bar.set_postfix(accepted=progress.accepted, refresh=False)
    bar.update(progress.done - bar.n)
