"""Strata: which recipe's candidates were screened by which thresholds, in a library that holds several.

A library of one recipe and one screening says both once, and has no strata of its own to state. A mixture, or a
library merged from others, states them here, one entry a stratum; `screening` is then the hull of all.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from scenario_lib.errors import LibraryError
from scenario_lib.feeders.canonical import canonical_json
from scenario_lib.feeders.checks import STRICT
from scenario_lib.feeders.parsing import parse_as


@dataclass(frozen=True, slots=True)
class Stratum:
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


def read_strata(metadata: dict[str, Any], recipes: Collection[str], source: str) -> tuple[Stratum, ...]:
    """The strata that a library's metadata state, or one for each recipe by its one screening.

    Raises:
        LibraryError: One names a recipe that is not there.
        DataFileError: Not what strata are; the message names the source and the entry.
    """
    if "strata" not in metadata:
        return tuple(Stratum(recipe, dict(metadata.get("screening", {}))) for recipe in recipes)
    strata = parse_as(tuple[Stratum, ...], metadata["strata"], f"{source}: strata")
    for stratum in strata:
        if stratum.recipe not in recipes:
            raise LibraryError(f"{source}: strata name recipe {stratum.recipe!r}, which is not there")
    return strata


def in_order(strata: Iterable[Stratum]) -> tuple[Stratum, ...]:
    """The strata, each once, in an order that does not depend on where they came from."""
    by_text = {canonical_json([s.recipe, s.screening, s.quota]): s for s in strata}
    return tuple(by_text[text] for text in sorted(by_text))


def to_state(strata: tuple[Stratum, ...]) -> tuple[Stratum, ...]:
    """What a library has to state beside its one `screening`: nothing, if that says it all."""
    plain = all(stratum.screening == strata[0].screening and not stratum.quota for stratum in strata)
    return () if plain else strata


def hull(strata: Iterable[Stratum]) -> dict[str, int | float]:
    """The narrowest thresholds within which the records of all strata are."""
    widest: dict[str, int | float] = {}
    for stratum in strata:
        for name, value in stratum.screening.items():
            ends = (widest.get(name, value), value)
            widest[name] = min(ends) if name.startswith("min_") else max(ends)
    return widest
