"""What is otherwise here than where a library was built: data, versions, numpy's random stream, the processor.

Each difference is a note, and a cause that findings about records may have.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scenario_lib.feeders.canonical import canonical_json, first_difference
from scenario_lib.feeders.circuit_files import circuit_digest
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.origin import built_on
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.versions import versions
from scenario_lib.scenario.canary import moved_draws
from scenario_lib.screening.build_log import machine
from scenario_lib.screening.findings import Cause, Finding, Grade, all_causes
from scenario_lib.simulation.assets import assets_digest
from scenario_lib.simulation.training_trace import training_trace_recipe

_OF_PROCESSOR = ("cpu_features", "blas")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What differs, for the library as a whole and by recipe.

    Attributes:
        known: Whether versions and processor of the build are known; if not, more than this may differ.
    """

    common: tuple[Finding, ...]
    by_recipe: Mapping[str, tuple[Finding, ...]]
    known: bool

    @property
    def notes(self) -> tuple[Finding, ...]:
        """All notes, those on data first."""
        return (*(note for notes in self.by_recipe.values() for note in notes), *self.common)

    def causes(self, record: ScenarioRecord) -> tuple[Cause, ...]:
        """What may make the rollouts of a record differ; one without a training job reads no training trace.

        EDITED_RECORD if nothing does, and nothing is unknown: then it was changed together with its digests.
        """
        data = self.by_recipe["" if record.proof is None else record.proof.recipe]
        found = all_causes((*data, *self.common))
        unread = {Cause.EXPERIMENT} if record.training_overlay else {Cause.EXPERIMENT, Cause.TRAINING_TRACE}
        named = tuple(cause for cause in found if cause not in unread)
        return named or ((Cause.EDITED_RECORD,) if self.known else ())


def compare_conditions(
    library: ScenarioLibrary, sources: Mapping[str, Experiment], specs_dir: Path | None
) -> Conditions:
    """Compare what a library was built with and what is here.

    Args:
        library: Its recipes have digests of data and its metadata have versions, unless openg2g's example wrote it.
        sources: What is here under the name of each recipe's experiment.
        specs_dir: Spec cache here; None means the shipped one.
    """
    built = built_on(library.path)
    common = (*stream_notes(library), *version_notes(library), *_processor_notes(built))
    by_recipe = {name: tuple(_data_notes(recipe, sources[name], specs_dir)) for name, recipe in library.recipes.items()}
    return Conditions(common, by_recipe, bool(library.contents.versions) and "cpu_features" in built)


def stream_notes(library: ScenarioLibrary) -> Iterator[Finding]:
    """Whether numpy draws otherwise than when seeds got their meaning."""
    moved = moved_draws()
    if moved:
        text = (
            f"numpy {versions()['numpy']} draws otherwise ({', '.join(moved)}): seeds mean other scenarios here. "
            f"Install numpy {library.contents.versions.get('numpy', '2.4')}, or validate --from-numbers"
        )
        yield Finding(Grade.HELD, text, (Cause.RANDOM_STREAM,))


def version_notes(library: ScenarioLibrary) -> Iterator[Finding]:
    """Whether versions are those that the library was built with."""
    built, here = library.contents.versions, versions()
    if built and built != here:
        changed = (first_difference(here.get(name), built.get(name), name) for name in sorted({*built, *here}))
        text = "; ".join(change for change in changed if change)
        message = f"{library.path}: versions are not those that built it ({text})"
        yield Finding(Grade.HELD, message, (Cause.VERSIONS,))


def _processor_notes(built: Mapping[str, Any]) -> Iterator[Finding]:
    """Equal traces are promised for equal processor features only; a log that is not there says nothing."""
    here = machine()
    for name in _OF_PROCESSOR:
        if name in built and built[name] != here[name]:
            text = f"{name} here: {_listed(here[name])}; where the library was built: {_listed(built[name])}"
            yield Finding(Grade.HELD, text, (Cause.CPU_FEATURES,))


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) and names else "not known"


def _data_notes(recipe: Recipe, source: Experiment, specs_dir: Path | None) -> Iterator[Finding]:
    if recipe.data is None:
        return
    circuit = source.feeder.circuit
    if circuit_digest(Path(circuit)) != recipe.data.circuit:
        text = f"{circuit}: the circuit is not the one that the library was built on"
        yield Finding(Grade.HELD, text, (Cause.CIRCUIT,))
    if assets_digest(recipe.experiment.models, specs_dir) != recipe.data.models:
        text = "power traces or fits are not those that the library was built on; is --specs-dir right?"
        yield Finding(Grade.HELD, text, (Cause.MODELS,))
    if training_trace_recipe().digest != recipe.data.training_trace:
        text = "the training trace that is generated here is not the one that the library was built on"
        yield Finding(Grade.HELD, text, (Cause.TRAINING_TRACE,))
    yield from _experiment_note(recipe, source)


def _experiment_note(recipe: Recipe, source: Experiment) -> Iterator[Finding]:
    """Whether the experiment of that name is still the recipe's; the overlay is left out, because recipes choose it."""
    here, there = (
        json.loads(canonical_json(Recipe(replace(each, overlay=None), recipe.settings).to_dict()["experiment"]))
        for each in (source, recipe.experiment)
    )
    change = first_difference(here, there)
    if change:
        text = f"experiment {source.name!r} here is not the library's ({change}); the library's is used"
        yield Finding(Grade.HELD, text, (Cause.EXPERIMENT,))
