"""Options that several commands share."""

import os
from pathlib import Path

import click

from scenario_lib.errors import InvalidSettingError


def available_cores() -> int:
    """Cores that this process may use, which a container or a batch system may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


jobs_option = click.option(
    "--jobs", type=click.IntRange(min=1), default=available_cores, show_default="all cores", help="Worker processes."
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
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def parse_seeds(text: str | None) -> tuple[int, ...] | None:
    """Seeds from "7,1007"."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidSettingError(f"--seeds is {text!r}; expected whole numbers with commas, such as 7,1007") from None
