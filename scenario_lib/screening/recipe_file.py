"""A recipe file: everything a build needs to be told, as TOML, before command-line options change it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.feeders.catalogue import load_experiment
from scenario_lib.feeders.checks import STRICT
from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.parsing import parse_as, read_toml
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import SEED_WAYS, CandidateRequest

Tables = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """The tables of a recipe file.

    Attributes:
        system: A shipped feeder by name, or an experiment's TOML file (relative to the recipe file).
        overlay: False for no training overlay, a table for another base than the experiment's.
        randomization: Settings by openg2g's flat names.
        request: The table `[candidates]`: which seeds are tried, and when to stop.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    system: str
    overlay: bool | TrainingJob = True
    randomization: dict[str, Any] = field(default_factory=dict)
    screening: ScreeningCriteria = ScreeningCriteria()
    candidates: CandidateRequest | None = None

    def experiment(self) -> Experiment:
        """The experiment with the overlay that the recipe asks for."""
        experiment = load_experiment(self.system)
        if isinstance(self.overlay, TrainingJob):
            return replace(experiment, overlay=self.overlay)
        return experiment if self.overlay else replace(experiment, overlay=None)

    def settings(self, experiment: Experiment) -> RandomizationSettings:
        """The settings; whether ramps are drawn is the experiment's default unless the recipe says."""
        return RandomizationSettings.from_openg2g(
            {"randomize_ramps": experiment.randomize_ramps_default, **self.randomization}
        )


def read_recipe_tables(path: Path) -> Tables:
    """The tables of a recipe file, with the path of an experiment file made absolute."""
    tables = read_toml(path)
    if str(tables.get("system", "")).endswith(".toml"):
        tables["system"] = str((path.parent / tables["system"]).resolve())
    return tables


def parse_recipe(tables: Tables, source: str) -> RecipeFile:
    """The one recipe that tables describe; see `recipe_strata` for those that describe several.

    Raises:
        DataFileError: A table or value is not what it should be.
    """
    if "strata" in tables:
        raise DataFileError(
            f"{source}: has strata; expected a recipe without them here, such as one of the strata alone"
        )
    recipe = parse_as(RecipeFile, tables, source)
    try:
        RandomizationSettings.from_openg2g(recipe.randomization)
    except InvalidSettingError as error:
        raise DataFileError(f"{source}: randomization: {error}") from None
    return recipe


def with_request(tables: Tables, options: Mapping[str, Any]) -> Tables:
    """The tables with a `[candidates]` changed by options that are not None.

    A way of naming candidates given as an option (a number, a number to accept, a list) replaces the file's. Of a
    recipe with strata only the first seed can be changed: that of the first stratum, which the others follow.

    Raises:
        InvalidSettingError: Another option, and the recipe has strata.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if tables.get("strata"):
        return _with_first_seed(tables, given)
    table = dict(tables.get("candidates", {}))
    if any(way in given for way in SEED_WAYS):
        table = {name: value for name, value in table.items() if name not in (*SEED_WAYS, "max_candidates")}
    return {**tables, "candidates": {**table, **given}}


def _with_first_seed(tables: Tables, given: Tables) -> Tables:
    if given.keys() != {"seed_start"}:
        names = ", ".join(sorted(given.keys() - {"seed_start"}))
        raise InvalidSettingError(f"{names}: the recipe has strata, each with its own; change them in the file")
    first, *others = tables["strata"]
    return {**tables, "strata": [{**first, "candidates": {**first.get("candidates", {}), **given}}, *others]}


def with_overlay(tables: Tables, overlay: bool) -> Tables:
    """The tables with the overlay switched on or off, also in strata that say otherwise."""
    changed = {**tables, "overlay": overlay}
    if "strata" in tables:
        changed["strata"] = [{k: v for k, v in own.items() if k != "overlay"} for own in tables["strata"]]
    return changed


def with_setting(tables: Tables, name: str, value: Any) -> Tables:
    """The tables with one setting of the randomisation or the screening changed, also in strata that say otherwise.

    Raises:
        InvalidSettingError: Neither has a setting of that name.
    """
    require_setting(name)
    for table, known in (
        ("randomization", RandomizationSettings().to_openg2g()),
        ("screening", ScreeningCriteria().to_dict()),
    ):
        if name in known:
            changed = {**tables, table: {**tables.get(table, {}), name: value}}
            if "strata" in tables:
                changed["strata"] = [_without(own, table, name) for own in tables["strata"]]
            return changed
    return tables


def require_setting(name: str) -> None:
    """Refuse a name that neither the randomisation nor the screening has.

    Raises:
        InvalidSettingError: Saying where what it names is given, or which names there are.
    """
    known = [*RandomizationSettings().to_openg2g(), *ScreeningCriteria().to_dict()]
    if name in (each.name for each in fields(CandidateRequest)):
        raise InvalidSettingError(
            f"setting {name!r} is none of the draws or thresholds, but says which candidates are tried: give it in the "
            f"recipe file, such as candidates = {{ quota = {{ under = 20 }}, max_candidates = 400 }}"
        )
    if name not in known:
        raise InvalidSettingError(f"setting {name!r} is not known; expected one of {', '.join(known)}")


def _without(own: Tables, table: str, name: str) -> Tables:
    if table not in own:
        return own
    return {**own, table: {key: value for key, value in own[table].items() if key != name}}
