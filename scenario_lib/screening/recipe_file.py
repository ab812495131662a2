"""A recipe file: everything a build needs to be told, as TOML, before command-line options change it.

It may have strata: each `[[strata]]` is a recipe of its own, which inherits what it does not say itself::

    system = "ieee13"

    [screening]                 # for all strata
    min_recovery_frac = 0.4

    [[strata]]
    name = "evening"
    candidates = { quota = { under = 200, mixed = 50 }, max_candidates = 4000 }
    randomization = { load_scale_min = 1.0 }

    [[strata]]
    name = "noon"
    candidates = { quota = { over = 100 } }

Seeds follow one another: a stratum's first seed comes after the last one that the stratum before it may try
(`max_candidates` of them, tried or not), unless it gives a `seed_start` of its own. So no stratum depends on how many
candidates another one needed, and one added at the end changes none before it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from scenario_lib._parsing import RECIPE, parse_settings_file, read_toml
from scenario_lib._values import STRICT, few, likely, shown
from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import SEED_WAYS, CandidateRequest, holds
from scenario_lib.screening.select import Stratum, plan_stratum
from scenario_lib.simulation.engines import Engine

Tables = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """The tables of a recipe file.

    Attributes:
        name: Of the stratum that it is; None for the whole of a file without strata.
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
    name: str | None = None

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
    tables = read_toml(path, RECIPE)
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
    if "name" in tables:
        raise DataFileError(f"{source}: name: is not known; expected it inside strata only")
    recipe = parse_settings_file(RecipeFile, tables, source)
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
        raise InvalidSettingError(f"setting {shown(name)} is not known; {likely(name, known)}")


def _without(own: Tables, table: str, name: str) -> Tables:
    if table not in own:
        return own
    return {**own, table: {key: value for key, value in own[table].items() if key != name}}


_INHERITED = ("randomization", "screening")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def parse_strata(tables: Tables, source: str) -> list[RecipeFile]:
    """The strata of a recipe file, or the one recipe that it is.

    Raises:
        DataFileError: A table or value is not what it should be; the message names the file and the stratum.
    """
    if "strata" not in tables:
        return [parse_recipe(tables, source)]
    if "candidates" in tables:
        raise DataFileError(f"{source}: candidates is given beside strata; expected it inside each of them")
    strata: list[RecipeFile] = []
    first_position = 0
    for name, own in _named(tables["strata"], source):
        # A request without a way of naming candidates is refused below, by name.
        own["candidates"] = {"seed_start": first_position, **own.get("candidates", {})}
        recipe = parse_recipe(_inheriting(tables, own), f"{source}: stratum {name!r}")
        strata.append(replace(recipe, name=name))
        if recipe.candidates is not None and recipe.candidates.seeds is None:
            first_position = recipe.candidates.seed_start + recipe.candidates.most_candidates
    return strata


def _named(strata: Any, source: str) -> Iterator[tuple[str, Tables]]:
    if not isinstance(strata, list) or not strata or not all(isinstance(own, dict) for own in strata):
        raise DataFileError(f"{source}: strata is {strata!r}; expected tables [[strata]]")
    for index, own in enumerate(strata):
        name = own.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DataFileError(f"{source}: strata[{index}]: name is {name!r}; expected letters, digits and -_.")
        for table in (*_INHERITED, "candidates"):
            if not isinstance(own.get(table, {}), dict):
                raise DataFileError(f"{source}: stratum {name!r}: {table} is {own[table]!r}; expected a table")
        if "system" in own:
            raise DataFileError(f"{source}: stratum {name!r}: system is given; expected all strata on one feeder")
        yield name, {key: value for key, value in own.items() if key != "name"}


def _inheriting(tables: Tables, own: Tables) -> Tables:
    """The tables of one stratum as a recipe of its own."""
    common = {key: value for key, value in tables.items() if key != "strata"}
    merged = {key: {**common.get(key, {}), **own.get(key, {})} for key in _INHERITED}
    return {**common, **own, **merged}


def unread_settings(strata: list[RecipeFile]) -> list[str]:
    """Sentences about settings that somebody gave and no draw of any stratum reads."""
    read: set[str] = set()
    unread: dict[str, str] = {}
    for recipe in strata:
        given = recipe.randomization
        without_effect = recipe.settings(recipe.experiment()).unread(given)
        read |= given.keys() - without_effect.keys()
        unread.update(without_effect)
    return [
        f"randomization: {name} is given, but no draw reads it; it would have an effect with {remedy}"
        for name, remedy in unread.items()
        if name not in read
    ]


def recipe_for_seed(strata: list[RecipeFile], seed: int, source: str) -> RecipeFile:
    """The recipe that a seed is drawn with.

    Raises:
        DataFileError: No stratum has that seed.
    """
    if strata[0].name is None:
        return strata[0]
    for stratum in strata:
        if stratum.candidates is not None and holds(stratum.candidates.seed_order(), seed):
            return stratum
    names = few(stratum.name for stratum in strata)
    raise DataFileError(f"{source}: seed {seed} belongs to none of its strata ({names})")


_COMPILED = Engine()


def planned(
    recipes: Sequence[RecipeFile], specs_dir: Path | None = None, full_table: bool = False, engine: Engine = _COMPILED
) -> list[Stratum]:
    """The strata ready to be built.

    Args:
        recipes: The recipe of each.
        specs_dir, full_table, engine: How candidates are measured, whatever the recipe; see `MeasurePlan`.

    Raises:
        DataFileError, UnknownNameError: The experiment cannot be used.
    """
    strata = []
    for recipe in recipes:
        if recipe.candidates is None:
            raise DataFileError(f"stratum {recipe.name!r}: has no candidates; expected a number, a quota or seeds")
        experiment = recipe.experiment()
        settings = recipe.settings(experiment)
        plan = MeasurePlan(experiment, settings, recipe.screening, specs_dir, full_table, engine)
        strata.append(plan_stratum(plan, recipe.candidates, recipe.name))
    return strata
