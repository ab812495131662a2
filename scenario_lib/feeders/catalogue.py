"""Experiments by name (those that ship) or by file (a user's own feeder)."""

import os
from pathlib import Path

from scenario_lib.errors import UnknownNameError
from scenario_lib.feeders.arguments import refused
from scenario_lib.feeders.data_files import data_dir
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import read_experiment


def experiment_names() -> tuple[str, ...]:
    """Names of the experiments that ship."""
    return tuple(sorted(path.parent.name for path in data_dir().glob("feeders/*/experiment.toml")))


def load_experiment(system: str | os.PathLike[str]) -> Experiment:
    """Experiment of a shipped feeder by name, or of a user's own by the path of its TOML file.

    Raises:
        UnknownNameError: Neither a known name nor a TOML file.
        MissingDataError: The named file, or one that it names, is missing.
        DataFileError: The file does not describe an experiment.
    """
    if str(system).endswith(".toml"):
        return read_experiment(Path(system))
    return shipped_experiment(system)


def as_experiment(field: str, value: object) -> Experiment:
    """An experiment, or what `load_experiment` takes; see `arguments`."""
    if isinstance(value, Experiment):
        return value
    if not isinstance(value, str | os.PathLike):
        raise refused(field, value, "an Experiment, a shipped feeder's name, or the path of an experiment's TOML file")
    return load_experiment(value)


def shipped_experiment(system: object) -> Experiment:
    """Experiment of a shipped feeder, never a file that whoever named it chose.

    Raises:
        UnknownNameError: Not a known name.
    """
    if str(system) not in experiment_names():
        known = ", ".join(experiment_names())
        raise UnknownNameError(
            f"system {str(system)!r} is not known; expected one of {known}, or the path of an experiment's TOML file"
        )
    return read_experiment(data_dir() / "feeders" / str(system) / "experiment.toml")
