"""Options that several commands share."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenario_lib.errors import InvalidSettingError

if TYPE_CHECKING:
    from scenario_lib.screening.build import Progress


def available_cores() -> int:
    """Cores that this process may use, which a container or a batch system may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=available_cores,
    show_default="all cores",
    help="Worker processes, unless a cluster has its own.",
)
timeout_option = click.option(
    "--timeout", "timeout_s", type=float, default=None, help="Longest time for one candidate (s)."
)
specs_dir_option = click.option(
    "--specs-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Spec cache in openg2g's layout, such as measured traces. [default: the shipped synthetic traces]",
)
out_option = click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory of the library.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace what is there, if it is a library.")
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


def show_progress(bar: Any, progress: "Progress") -> None:
    """How far a build is, on its bar."""
    bar.total = progress.total
    bar.set_postfix(accepted=progress.accepted, refresh=False)
    bar.update(progress.done - bar.n)
