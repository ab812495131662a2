"""A recipe: what records were drawn from, complete enough to draw them again anywhere.

The experiment is kept by value, so that a later edit of a shipped file cannot change what a record means; digests of
the data that rollouts read say whether a replay can be expected to be equal.

Strata: which recipe's candidates were screened by which thresholds, in a library that holds several.

A library of one recipe and one screening says both once, and has no strata of its own to state. A mixture, or a
library merged from others, states them here, one entry a stratum; `screening` is then the loosest thresholds of all.

What the rollouts of one record read, as one digest: the record's part of the replay certificate.

It covers drawn numbers and data files, never what is computed from them. Tables that are made with sines, logarithms
or matrix products differ in their last bits between processors; their sources do not. So the digest is equal on every
machine, and two records with equal ones have equal traces wherever versions and processor features are equal,
whatever settings they were drawn with.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from scenario_lib._files import canonical_json, digest_of
from scenario_lib._parsing import parse_as
from scenario_lib._values import STRICT, refuse
from scenario_lib.errors import InvalidSettingError, LibraryError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import experiment_names, load_experiment
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
        experiment = asdict(replace(self.experiment, feeder=feeder))
        # Left out where nothing is set: identifiers of recipes are older than it.
        if not feeder.initial_capacitor_steps:
            del experiment["feeder"]["initial_capacitor_steps"]
        return {
            "system": self.experiment.name,
            "experiment": experiment,
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


@dataclass(frozen=True, slots=True)
class StratumEntry:
    """How the candidates of one recipe were screened.

    Attributes:
        recipe: Identifier of the recipe; its `stratum` is the name that the user gave.
        screening: The criteria, by name.
        quota: Most records that were wanted of each kind; empty if there was no such limit.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    recipe: str
    screening: dict[str, int | float]
    quota: dict[str, int] = field(default_factory=dict)


def read_strata(metadata: dict[str, Any], recipes: Collection[str], source: str) -> tuple[StratumEntry, ...]:
    """The strata that a library's metadata state, or one for each recipe by its one screening.

    Raises:
        LibraryError: One names a recipe that is not there.
        DataFileError: Not what strata are; the message names the source and the entry.
    """
    if "strata" not in metadata:
        return tuple(StratumEntry(recipe, dict(metadata.get("screening", {}))) for recipe in recipes)
    strata = parse_as(tuple[StratumEntry, ...], metadata["strata"], f"{source}: strata")
    for stratum in strata:
        if stratum.recipe not in recipes:
            raise LibraryError(f"{source}: strata name recipe {stratum.recipe!r}, which is not there")
    return strata


def in_order(strata: Iterable[StratumEntry]) -> tuple[StratumEntry, ...]:
    """The strata, each once, in an order that does not depend on where they came from."""
    by_text = {canonical_json([s.recipe, s.screening, s.quota]): s for s in strata}
    return tuple(by_text[text] for text in sorted(by_text))


def to_state(strata: tuple[StratumEntry, ...]) -> tuple[StratumEntry, ...]:
    """What a library has to state beside its one `screening`: nothing, if that says it all."""
    plain = all(stratum.screening == strata[0].screening and not stratum.quota for stratum in strata)
    return () if plain else strata


def loosest_thresholds(strata: Iterable[StratumEntry]) -> dict[str, int | float]:
    """The narrowest thresholds within which the records of all strata are."""
    widest: dict[str, int | float] = {}
    for stratum in strata:
        for name, value in stratum.screening.items():
            ends = (widest.get(name, value), value)
            widest[name] = min(ends) if name.startswith("min_") else max(ends)
    return widest


# The scenario has its own sites, PV systems, loads and training job; the circuit and the rest of the feeder's facts
# stand below.
_READ_BY_ROLLOUTS = ("models", "limits", "ofo", "datacenter")
_READ_OF_FEEDER = ("source_pu", "initial_taps_pu", "exclude_buses", "initial_capacitor_steps")


def inputs_digest(recipe: Recipe, engine: str, scenario_digest: str, has_training: bool) -> str:
    """SHA-256 of what the rollouts of one scenario read.

    Args:
        recipe: What the scenario was drawn from, with the digests of its data.
        engine: Label of the engine that runs it.
        scenario_digest: Digest of the drawn numbers.
        has_training: Whether the scenario has a training job; without one, no rollout reads the training trace.
    """
    return RolloutInputs(recipe).digest(engine, scenario_digest, has_training)


class RolloutInputs:
    """The same digests for many scenarios of one recipe: what they share is digested once."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._shared: dict[tuple[str, bool], str] = {}

    def digest(self, engine: str, scenario_digest: str, has_training: bool) -> str:
        """See `inputs_digest`."""
        key = (engine, has_training)
        if key not in self._shared:
            self._shared[key] = digest_of(_shared_inputs(self._recipe, engine, has_training))
        return digest_of({"scenario": scenario_digest, "shared": self._shared[key]})


def _shared_inputs(recipe: Recipe, engine: str, has_training: bool) -> dict[str, Any]:
    experiment = recipe.to_dict()["experiment"]
    feeder = experiment["feeder"]
    return {
        "engine": engine,
        "data": _data(recipe, has_training),
        "feeder": {name: feeder[name] for name in _READ_OF_FEEDER if name in feeder},
        **{name: experiment[name] for name in _READ_BY_ROLLOUTS},
    }


def _data(recipe: Recipe, has_training: bool) -> dict[str, Any] | None:
    if recipe.data is None:
        return None
    trace = recipe.data.training_trace if has_training else None
    return {"circuit": recipe.data.circuit, "models": recipe.data.models, "training_trace": trace}
