"""A recipe: what records were drawn from, complete enough to draw them again anywhere.

The experiment is kept by value, so that a later edit of a shipped file cannot change what a record means; digests of
the data that rollouts read say whether a replay can be expected to be equal.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.canonical import digest_of
from scenario_lib.feeders.catalogue import experiment_names, load_experiment
from scenario_lib.feeders.checks import STRICT, refuse
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.parsing import parse_as
from scenario_lib.scenario.settings import RandomizationSettings

_ID_LENGTH = 12


@dataclass(frozen=True, slots=True)
class DataDigests:
    """Digests of what rollouts read.

    Attributes:
        circuit: The OpenDSS circuit's files, with the data files that they name.
        models: Power traces and fits of the models.
        training_trace: The training trace, in micro-watts.
        training_trace_params: The parameters that it is generated from.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    circuit: str
    models: str
    training_trace: str
    training_trace_params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Experiment, settings and data of one group of records.

    Attributes:
        data: None for a library that does not say (one written by openg2g's example).
        stratum: Name of the stratum that the records were built for; None for a library without strata.
    """

    experiment: Experiment
    settings: RandomizationSettings
    data: DataDigests | None = None
    stratum: str | None = None

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits of the digest of the recipe."""
        return digest_of(self.to_dict())[:_ID_LENGTH]

    def to_dict(self) -> dict[str, Any]:
        """The recipe as plain values; nothing in it depends on where files lie."""
        feeder = replace(self.experiment.feeder, circuit=Path(self.experiment.feeder.circuit).name)
        return {
            "system": self.experiment.name,
            "experiment": asdict(replace(self.experiment, feeder=feeder)),
            "randomize_kwargs": self.settings.to_openg2g(),
            "data": None if self.data is None else asdict(self.data),
            # Left out, not null, without strata: the identifier of a plain recipe is older than strata are.
            **({} if self.stratum is None else {"stratum": self.stratum}),
        }


def recipe_from_dict(tables: dict[str, Any], source: str) -> Recipe:
    """The recipe that `to_dict` wrote.

    Raises:
        DataFileError, InvalidSettingError: It is not one; the message names the source and the field.
    """
    data, stratum = tables.get("data"), tables.get("stratum")
    if not isinstance(stratum, str | None):
        raise refuse(f"{source}: stratum", stratum, "a name")
    return Recipe(
        experiment=parse_as(Experiment, tables.get("experiment"), f"{source}: experiment"),
        settings=RandomizationSettings.from_openg2g(tables.get("randomize_kwargs") or {}),
        data=None if data is None else parse_as(DataDigests, data, f"{source}: data"),
        stratum=stratum,
    )


def require_one_feeder(recipes: Iterable[Recipe], library: object) -> None:
    """Refuse a library whose records are of several feeders, where one is played.

    Raises:
        InvalidSettingError: Naming the library, its feeders, and how to take one of them out.
    """
    names = sorted({recipe.experiment.name for recipe in recipes})
    if len(names) > 1:
        raise InvalidSettingError(
            f"{library}: has records of several feeders ({', '.join(names)}); expected one: 'scenario-lib info' names "
            f"its recipes, and 'scenario-lib export --recipe' takes one out"
        )


def located_experiment(recipe: Recipe, system: str | None = None) -> Experiment:
    """The recipe's experiment with the circuit file found again: the shipped one, or that of a user's own file.

    Args:
        system: Experiment's TOML file, for a library on a feeder of the user's own.

    Raises:
        InvalidSettingError: The feeder does not ship, and no file is given.
    """
    circuit = source_experiment(recipe, system).feeder.circuit
    return replace(recipe.experiment, feeder=replace(recipe.experiment.feeder, circuit=circuit))


def source_experiment(recipe: Recipe, system: str | None = None) -> Experiment:
    """What is here under the name of the recipe's experiment, which may have changed since; see `located_experiment`.

    Raises:
        InvalidSettingError: The feeder does not ship, and no file is given.
    """
    name = recipe.experiment.name
    if system is None and name not in experiment_names():
        raise InvalidSettingError(f"the library is on feeder {name!r}, which does not ship; give its file as --system")
    return load_experiment(system or name)
