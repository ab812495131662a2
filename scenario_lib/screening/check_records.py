"""Is every record of a library the one that was screened? What can be told without running a rollout.

Drawn again, compared with its digests, its stored numbers and its traces; where something differs, the cause is told
from what the record and its stored numbers say, and from whether numpy still draws what it drew.
"""

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scenario_lib.errors import LibraryError, ScenarioLibError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.files import METADATA
from scenario_lib.library.inputs import RolloutInputs
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.screening.findings import Cause, Finding, Grade
from scenario_lib.simulation.engines import engine_from_label


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
    proof = record.proof
    if proof is None:
        return
    inputs, has_training = around.inputs[proof.recipe], record.training_overlay is not None
    try:
        engine_from_label(proof.engine)
        same = inputs.digest(proof.engine, proof.scenario_digest, has_training) == proof.inputs_digest
    except ScenarioLibError:
        same = False
    if not same:
        edited = Cause.EDITED_RECIPE if proof.recipe in around.edited_recipes else Cause.EDITED_RECORD
        text = (
            f"{library.path}: what the rollouts of seed {record.seed} read (scenario, engine, experiment, data) is not "
            f"what it was when it was screened"
        )
        yield Finding(Grade.DIFFERS, text, (edited,), record.index)


def _check_numbers(library: ScenarioLibrary, record: ScenarioRecord, around: Circumstances) -> Iterator[Finding]:
    if record.proof is None or library.contents.numbers_file(record) in around.damaged:
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
    if record.proof is None:
        return around.of_draws or (Cause.EDITED_RECORD,)
    if _says_another_scenario(library, record, around):
        return (Cause.EDITED_RECORD,)
    if record.proof.recipe in around.edited_recipes:
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
