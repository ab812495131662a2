"""Where the shipped data lie, in a checkout as in an installed wheel."""

from importlib.resources import files
from pathlib import Path


def data_dir() -> Path:
    """Folder of the shipped data: `feeders/`, `models/`, `specs/`, `recipes/`."""
    return Path(str(files("scenario_lib.data")))
