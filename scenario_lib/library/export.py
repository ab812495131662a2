"""Export one recipe of a library: a library that openg2g's example can load."""

from dataclasses import dataclass
from pathlib import Path

from scenario_lib.errors import UnknownNameError
from scenario_lib.library.derive import entries_of, write_derived
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.place import new_library, require_place


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote."""

    path: Path
    recipe: str
    records: int
    candidates: int


def export_recipe(source: Path, name: str | None, out: Path, overwrite: bool = False) -> ExportReport:
    """Write the records and candidates of one recipe as a library of their own.

    A library of several recipes has no `config.randomize_kwargs`, so that openg2g's example stops rather than replay
    all records with one of them; what is written here has it.

    Args:
        source: The library.
        name: A recipe's identifier or the name of its stratum; None for the only one.
        out: Where to.
        overwrite: Replace a library that is there.

    Raises:
        BuildRefusedError: Something is at `out` that may not be replaced.
        UnknownNameError: No such recipe, or several and none is named.
        LibraryError, ReplayError: The library cannot be opened or has no digests, or a record does not replay.
    """
    require_place(out, overwrite, [source])
    library = ScenarioLibrary(source)
    recipe_id = find_recipe(library, name)
    entries = [entry for entry in entries_of(library) if entry.row.recipe == recipe_id]
    if not any(entry.row.accepted for entry in entries):
        raise UnknownNameError(f"{library.path}: no record is of recipe {recipe_id}; export another one")
    with new_library(out, overwrite, [source]) as folder:
        written = write_derived(folder, entries, [library], {"command": "export", "recipe": recipe_id})
    return ExportReport(out.resolve(), recipe_id, len(written.records), len(written.candidates))


def find_recipe(library: ScenarioLibrary, name: str | None) -> str:
    """Identifier of the recipe that is called so.

    Raises:
        UnknownNameError: None is, or several are.
    """
    found = [i for i, recipe in library.recipes.items() if name is None or name in (i, recipe.stratum)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{i} ({r.stratum})" if r.stratum else i for i, r in library.recipes.items())
    asked = "which recipe?" if name is None else f"{len(found) or 'no'} recipes are called {name!r};"
    raise UnknownNameError(f"{library.path}: {asked} expected one of {known}")
