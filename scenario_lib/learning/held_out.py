"""What makes figures of a library doubtful: a policy that was trained on it, or other data than it was built on."""

from collections.abc import Sequence
from pathlib import Path

from scenario_lib.errors import SharedSeedsError
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.learning.policy_files import TrainedRecord
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.recipe import located_experiment
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.canonical import scenario_digest
from scenario_lib.simulation.assets import assets_digest

_MOST_NAMED = 5


def held_out_warnings(
    library: ScenarioLibrary, policies: Sequence[TrainedPolicy], allow_shared_seeds: bool
) -> tuple[str, ...]:
    """Sentences about seeds that a library shares with what policies were trained on; none where all is well.

    A record is shared if seed and recipe are equal, or the drawn scenario is (its recipe may say other data). A seed
    under another recipe is another scenario, of which some draws may be equal: that is only a warning.

    Raises:
        SharedSeedsError: A policy was trained on some of the library's records, and that is not allowed.
    """
    here = [record_identity(library, record) for record in library]
    warnings = []
    for policy in policies:
        there = policy.card.library.records
        drawn = {(record.recipe, record.seed) for record in there}
        digests = {record.scenario_digest for record in there}
        seeds = {record.seed for record in there}
        shared = [r.seed for r in here if (r.recipe, r.seed) in drawn or r.scenario_digest in digests]
        if shared and not allow_shared_seeds:
            raise SharedSeedsError(
                f"policy {policy.name} was trained on {_named(shared)} of {library.path}: its figures would say "
                f"nothing about scenarios that it has not seen. Build a library from other seeds (--seed-start), or "
                f"allow it (--allow-shared-seeds)"
            )
        if shared:
            warnings.append(f"policy {policy.name} was trained on {_named(shared)} of this library")
        alike = [record.seed for record in here if record.seed in seeds and record.seed not in shared]
        if alike:
            warnings.append(f"policy {policy.name} was trained on {_named(alike)} of this library, with other settings")
    return tuple(warnings)


def record_identity(library: ScenarioLibrary, record: ScenarioRecord) -> TrainedRecord:
    """Seed, recipe and digest of a record; computed where its library does not say."""
    if record.proof is not None:
        return TrainedRecord(record.seed, record.proof.recipe, record.proof.scenario_digest)
    return TrainedRecord(record.seed, library.recipe_of(record).id, scenario_digest(library.materialize(record)))


def other_data(library: ScenarioLibrary, specs_dir: Path | None, system: str | None) -> str | None:
    """A sentence if a library was built on other power traces or fits than the given ones; None if it was not.

    A library that does not say what it was built on passes.
    """
    for recipe in library.recipes.values():
        models = located_experiment(recipe, system).models
        if recipe.data is not None and assets_digest(models, specs_dir) != recipe.data.models:
            return "power traces or fits are not those that the library was built on; is --specs-dir right?"
    return None


def _named(seeds: Sequence[int]) -> str:
    names = ", ".join(str(seed) for seed in seeds[:_MOST_NAMED])
    rest = f" and {len(seeds) - _MOST_NAMED} more" if len(seeds) > _MOST_NAMED else ""
    return f"seed {names}" if len(seeds) == 1 else f"{len(seeds)} seeds ({names}{rest})"
