"""Strata in a recipe file: each `[[strata]]` is a recipe of its own, which inherits what it does not say itself::

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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scenario_lib.errors import DataFileError
from scenario_lib.feeders.checks import few
from scenario_lib.screening.recipe_file import RecipeFile, Tables, parse_recipe
from scenario_lib.screening.seeds import holds

_INHERITED = ("randomization", "screening")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class NamedRecipe:
    """One stratum of a recipe file; without a name, the whole of a file that has no strata."""

    name: str | None
    recipe: RecipeFile


def parse_strata(tables: Tables, source: str) -> list[NamedRecipe]:
    """The strata of a recipe file, or the one recipe that it is.

    Raises:
        DataFileError: A table or value is not what it should be; the message names the file and the stratum.
    """
    if "strata" not in tables:
        return [NamedRecipe(None, parse_recipe(tables, source))]
    if "candidates" in tables:
        raise DataFileError(f"{source}: candidates is given beside strata; expected it inside each of them")
    strata: list[NamedRecipe] = []
    first_position = 0
    for name, own in _named(tables["strata"], source):
        # A request without a way of naming candidates is refused below, by name.
        own["candidates"] = {"seed_start": first_position, **own.get("candidates", {})}
        recipe = parse_recipe(_inheriting(tables, own), f"{source}: stratum {name!r}")
        strata.append(NamedRecipe(name, recipe))
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


def recipe_for_seed(strata: list[NamedRecipe], seed: int, source: str) -> RecipeFile:
    """The recipe that a seed is drawn with.

    Raises:
        DataFileError: No stratum has that seed.
    """
    if strata[0].name is None:
        return strata[0].recipe
    for stratum in strata:
        if stratum.recipe.candidates is not None and holds(stratum.recipe.candidates.seed_order(), seed):
            return stratum.recipe
    names = few(stratum.name for stratum in strata)
    raise DataFileError(f"{source}: seed {seed} belongs to none of its strata ({names})")
