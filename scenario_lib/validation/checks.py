"""Are a library's files the ones that were written, and do they say the same of its records?

What is otherwise here than where a library was built: data, versions, numpy's random stream, the processor.

Each difference is a note, and a cause that findings about records may have.

Is every record of a library the one that was screened? What can be told without running a rollout.

Drawn again, compared with its digests, its stored numbers and its traces; where something differs, the cause is told
from what the record and its stored numbers say, and from whether numpy still draws what it drew.
"""

import json
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib._files import canonical_json, file_digest, first_difference, json_lines, read_bytes
from scenario_lib.errors import LibraryError, ScenarioLibError
from scenario_lib.feeders.circuit_files import circuit_digest
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.layout import CANDIDATES, DIGESTS, FORMAT_VERSION, METADATA
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.metadata import CONFIG_BANDS, config_of
from scenario_lib.library.provenance import built_on, versions
from scenario_lib.library.recipe import Recipe, RolloutInputs
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.scenario.canary import moved_draws
from scenario_lib.screening.build_record import machine
from scenario_lib.simulation.assets import assets_digest
from scenario_lib.simulation.engines import engine_from_label
from scenario_lib.validation.findings import Cause, Finding, Grade, all_causes


def damaged_files(library: ScenarioLibrary) -> dict[str, str]:
    """What is wrong with each file that is not the one that was written, by its name; the build log may be any.

    A library without digests has nothing to compare.
    """
    digests = library.contents.digests
    if not digests:
        return {}
    files = library.contents.files
    damaged = {name: text for name in files if (text := _damage(library.path / name, digests.get(name)))}
    # No digest covers the digests; but they can be written in one way only.
    written = "".join(json_lines({"format_version": FORMAT_VERSION, "sha256": digests}))
    if read_bytes(library.path / DIGESTS) != written.encode():
        damaged[DIGESTS] = f"{library.path / DIGESTS}: is not the file that was written"
    return damaged


def _damage(file: Path, digest: str | None) -> str | None:
    if not file.is_file():
        return f"{file}: missing"
    if file_digest(file) != digest:
        return f"{file}: is not the file that was written (its digest differs)"
    return None


def check_files(library: ScenarioLibrary, damaged: Mapping[str, str]) -> Iterator[Finding]:
    """Report damaged files, and see that the others say the same of recipes and records."""
    for text in damaged.values():
        yield Finding(Grade.DIFFERS, text, (Cause.DAMAGED_FILE,))
    if library.contents.digests:
        yield from _check_config(library)
        if CANDIDATES not in damaged:  # what parses a table trusts it more than a damaged one deserves
            yield from _check_candidates(library)


def _check_config(library: ScenarioLibrary) -> Iterator[Finding]:
    """The contract's `config` repeats the one recipe for openg2g's loader; that of several recipes does not."""
    config = library.config
    if len(library.recipes) != 1 or "randomize_kwargs" not in config:
        return
    (recipe,) = library.recipes.values()
    bands: dict[str, Any] = {name: config.get(name) for name in CONFIG_BANDS}
    expected = json.loads(canonical_json(config_of(recipe, config.get("n_candidates", 0), bands)))
    change = first_difference(config, expected)
    if change:
        text = f"{library.path / METADATA}: config is not what its recipe says ({change})"
        yield Finding(Grade.DIFFERS, text, (Cause.EDITED_RECIPE,))


def _check_candidates(library: ScenarioLibrary) -> Iterator[Finding]:
    path = library.path / CANDIDATES
    try:
        rows = read_candidates(path)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error), (Cause.DAMAGED_FILE,))
        return
    recipes, seeds, accepted = (rows.column(name).to_pylist() for name in ("recipe", "seed", "accepted"))
    listed = Counter(compress(zip(recipes, seeds, strict=True), accepted))
    if listed != Counter((record.digests.recipe, record.seed) for record in library if record.digests):
        text = f"{path}: accepted seeds are not those of {METADATA}"
        yield Finding(Grade.DIFFERS, text, (Cause.EDITED_RECORD,))


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
        data = self.by_recipe["" if record.digests is None else record.digests.recipe]
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


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What tells one cause from another.

    Attributes:
        elsewhere: Causes outside the library: numpy's random stream, versions.
        damaged: Names of files that are not the ones that were written.
        edited_recipes: Recipes that are not what their identifiers say.
        inputs: What rollouts read, by recipe.
    """

    elsewhere: tuple[Cause, ...]
    damaged: frozenset[str]
    edited_recipes: frozenset[str]
    inputs: Mapping[str, RolloutInputs]

    @property
    def of_draws(self) -> tuple[Cause, ...]:
        """Why a seed may mean other draws here."""
        return (Cause.RANDOM_STREAM,) if Cause.RANDOM_STREAM in self.elsewhere else self.elsewhere

    def of_file(self, name: str) -> tuple[Cause, ...]:
        """Why something in a file is not what its record's digest says."""
        return (Cause.DAMAGED_FILE if name in self.damaged else Cause.EDITED_RECORD,)


def check_records(library: ScenarioLibrary, around: Circumstances) -> Iterator[Finding]:
    """Check all recipes and records."""
    for name in sorted(around.edited_recipes):
        text = f"{library.path / METADATA}: recipe {name} is not what its identifier says; it was edited"
        yield Finding(Grade.DIFFERS, text, (Cause.EDITED_RECIPE,))
    for record in library:
        for check in (_check_inputs, _check_numbers, _check_draws, _check_traces):
            yield from check(library, record, around)


def _check_inputs(library: ScenarioLibrary, record: ScenarioRecord, around: Circumstances) -> Iterator[Finding]:
    digests = record.digests
    if digests is None:
        return
    inputs, has_training = around.inputs[digests.recipe], record.training_overlay is not None
    try:
        engine_from_label(digests.engine)
        same = inputs.digest(digests.engine, digests.scenario_digest, has_training) == digests.inputs_digest
    except ScenarioLibError:
        same = False
    if not same:
        edited = Cause.EDITED_RECIPE if digests.recipe in around.edited_recipes else Cause.EDITED_RECORD
        text = (
            f"{library.path}: what the rollouts of seed {record.seed} read (scenario, engine, experiment, data) is not "
            f"what it was when it was screened"
        )
        yield Finding(Grade.DIFFERS, text, (edited,), record.index)


def _check_numbers(library: ScenarioLibrary, record: ScenarioRecord, around: Circumstances) -> Iterator[Finding]:
    if record.digests is None or library.contents.numbers_file(record) in around.damaged:
        return
    try:
        library.stored_numbers(record)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error), (Cause.EDITED_RECORD,), record.index)


def _check_draws(library: ScenarioLibrary, record: ScenarioRecord, around: Circumstances) -> Iterator[Finding]:
    try:
        library.materialize(record)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error), around.of_file(library.contents.numbers_file(record)), record.index)
    except ScenarioLibError as error:
        yield Finding(Grade.DIFFERS, str(error), _causes_of_draw(library, record, around), record.index)


def _causes_of_draw(library: ScenarioLibrary, record: ScenarioRecord, around: Circumstances) -> tuple[Cause, ...]:
    """Why what is drawn now is not what was screened."""
    if record.digests is None:
        return around.of_draws or (Cause.EDITED_RECORD,)
    if _says_another_scenario(library, record, around):
        return (Cause.EDITED_RECORD,)
    if record.digests.recipe in around.edited_recipes:
        return (Cause.EDITED_RECIPE,)
    return around.of_draws or ((Cause.TRAINING_TRACE,) if record.training_overlay else (Cause.EDITED_RECORD,))


def _says_another_scenario(library: ScenarioLibrary, record: ScenarioRecord, around: Circumstances) -> bool:
    """Whether a record and its own stored numbers disagree; without whole numbers that cannot be told."""
    if library.contents.numbers_file(record) in around.damaged:
        return False
    try:
        numbers = library.stored_numbers(record)
        params = numbers["params"]
        stored = (numbers["seed"], *operator.itemgetter("pv_scale", "load_scale", "training_overlay")(params))
    except (LibraryError, LookupError, TypeError):
        return True
    return stored != (record.seed, record.pv_scale, record.load_scale, record.training_overlay)


def _check_traces(library: ScenarioLibrary, record: ScenarioRecord, around: Circumstances) -> Iterator[Finding]:
    try:
        for trace in (record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step):
            if len(trace) != DURATION_S or not np.all(np.isfinite(trace)):
                text = f"{library.path}: a trace of seed {record.seed} is not {DURATION_S} finite numbers"
                yield Finding(Grade.DIFFERS, text, around.of_file(library.contents.traces_file(record)), record.index)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error), around.of_file(library.contents.traces_file(record)), record.index)
