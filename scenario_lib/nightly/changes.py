"""What changed in where two libraries come from: versions, data, experiment, settings, thresholds, engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scenario_lib.library.contents import LibraryContents

ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Change:
    """One value that is not the same in two libraries; `ABSENT` where one side has none."""

    place: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.place}: {self.before} -> {self.after}"


def provenance_changes(before: LibraryContents, after: LibraryContents) -> tuple[Change, ...]:
    """Everything that differs in the provenance of two libraries."""
    return (
        *changes(before.versions, after.versions, "versions"),
        *changes(before.screening, after.screening, "screening"),
        *changes(_engines(before), _engines(after), "engines"),
        *_recipe_changes(before, after),
    )


def changes(before: Any, after: Any, place: str) -> Iterator[Change]:
    """All leaves at which two plain values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from changes(before.get(key, ABSENT), after.get(key, ABSENT), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changes(one, other, f"{place}[{index}]")
    elif before != after:
        yield Change(place, before, after)


def _engines(contents: LibraryContents) -> list[str]:
    return sorted({record.proof.engine for record in contents.records if record.proof})


def _recipe_changes(before: LibraryContents, after: LibraryContents) -> Iterator[Change]:
    """Recipes in one library only are laid beside each other in the order in which they stand there."""
    lost = [recipe for name, recipe in before.recipes.items() if name not in after.recipes]
    gained = [recipe for name, recipe in after.recipes.items() if name not in before.recipes]
    if len(lost) == len(gained):
        for one, other in zip(lost, gained, strict=True):
            yield from changes(one.to_dict(), other.to_dict(), f"recipe {one.id} -> {other.id}")
        return
    yield Change("recipes", [recipe.id for recipe in lost], [recipe.id for recipe in gained])
