"""Where a library comes from, and whether it still is what was written."""

import json
from collections import Counter
from collections.abc import Iterator

from scenario_lib.library.files import FORMAT_VERSION
from scenario_lib.library.recipe import Recipe
from scenario_lib.reporting.library_facts import LibraryFacts
from scenario_lib.reporting.page import Section, Table
from scenario_lib.reporting.text import DASH, counted
from scenario_lib.screening.findings import Grade
from scenario_lib.screening.readable import threshold_text

_VERDICTS = {
    Grade.HELD: ("good", "Held: files are those that were written, and every record is drawn again as it was."),
    Grade.WITHIN_TOLERANCE: ("open", "Held within tolerance."),
    Grade.EXPLAINED: ("open", "Held but for decisions on a rounding boundary."),
    Grade.NOT_VERIFIABLE: ("open", "Cannot be verified: the library has no digests."),
    Grade.DIFFERS: ("bad", "Differs: something is not as it was written."),
}


def verdict_text(facts: LibraryFacts) -> str:
    """The verdict on files and draws in a few words."""
    if facts.validation is None:
        return "nothing to validate"
    return _VERDICTS[facts.validation.grade][1].partition(":")[0].rstrip(".").lower()


def provenance_section(facts: LibraryFacts) -> Section:
    """Verdict, versions, engines, screening, recipes, digests."""
    text, verdict = ["No record was accepted, so there is nothing to replay."], "open"
    if facts.validation is not None:
        verdict, sentence = _VERDICTS[facts.validation.grade]
        text = [f"{sentence} Rollouts were not run again: 'scenario-lib validate LIBRARY --replay all' does that."]
        text += [finding.message for finding in facts.validation.findings[:10]]
        if len(facts.validation.findings) > 10:
            text.append(f"and {len(facts.validation.findings) - 10} more findings")
    if not facts.contents.reproducible:
        text.append("Not reproducible: some candidates were decided by a timeout or a dead worker.")
    tables = [_origin(facts), *_screening(facts), *_recipes(facts), *_digests(facts)]
    return Section("Provenance", tuple(text), tuple(tables), verdict=verdict)


def _origin(facts: LibraryFacts) -> Table:
    engines = Counter(record.proof.engine for record in facts.contents.records if record.proof)
    own = bool(facts.contents.digests)
    rows = [
        ("feeders", ", ".join(facts.info.systems)),
        ("screened on engine", counted(dict(engines)) if own else "not stated"),
        ("format version", str(FORMAT_VERSION) if own else "openg2g's example"),
        *((f"built with {name}", version) for name, version in facts.contents.versions.items()),
    ]
    return Table("Origin", ("what", "value"), tuple(rows))


def _screening(facts: LibraryFacts) -> Iterator[Table]:
    """The criteria; of a library of several recipes, a column for each where they were screened otherwise."""
    recipes = facts.contents.recipes
    criteria = {name: facts.contents.screening_of(name) for name in recipes}
    if all(one == facts.contents.screening for one in criteria.values()):
        criteria = {"value": facts.contents.screening}
    names = dict.fromkeys(name for one in criteria.values() for name in one)
    rows = tuple(
        (name, *(threshold_text(one[name]) if name in one else DASH for one in criteria.values())) for name in names
    )
    if rows:
        yield Table("Screening criteria", ("criterion", *criteria), rows)


def _recipes(facts: LibraryFacts) -> Iterator[Table]:
    for name, recipe in facts.contents.recipes.items():
        caption = f"Recipe {name}" if name else "Recipe"
        yield Table(f"{caption}: settings of the draws", ("setting", "value"), tuple(_settings(recipe)), folded=True)
        if recipe.data is not None:
            rows = (
                ("circuit", recipe.data.circuit),
                ("power traces and fits", recipe.data.models),
                ("training trace", recipe.data.training_trace),
            )
            yield Table(f"{caption}: digests of its data", ("data", "SHA-256"), rows, folded=True)


def _settings(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield "system", recipe.experiment.name
    for setting, value in recipe.settings.to_openg2g().items():
        yield setting, json.dumps(value)


def _digests(facts: LibraryFacts) -> Iterator[Table]:
    if facts.contents.digests:
        yield Table("Digests of the files", ("file", "SHA-256"), tuple(facts.contents.digests.items()), folded=True)
