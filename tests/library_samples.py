"""Small libraries made without simulating: real draws, made-up figures and traces."""

import json
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib._files import file_digest, write_json
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.layout import DIGESTS, METADATA
from scenario_lib.library.npz_store import trace_digest
from scenario_lib.library.recipe import Recipe, inputs_digest
from scenario_lib.library.record import RecordDigests, ScenarioRecord, digests_of
from scenario_lib.library.writer import NewLibrary, write_library
from scenario_lib.scenario.model import Scenario, resolve, scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario

SCREENING = {"min_recovery_frac": 0.7, "max_recovery_frac": 1.0, "min_baseline_integral": 0.2}


def sample_traces(seed: int) -> tuple[Floats, Floats]:
    """Made-up (baseline, OFO) penalty traces (pu^2) of an hour."""
    rng = np.random.default_rng(seed)
    return rng.random(3600), rng.random(3600) / 10


def sample_record(seed: int, recipe: Recipe) -> ScenarioRecord:
    scenario = scenario_of(seed, recipe)
    overlay = scenario.params.training_overlay
    digests = [trace_digest(trace) for trace in sample_traces(seed)]
    digest = scenario_digest(scenario)
    inputs = inputs_digest(recipe, "reference", digest, overlay is not None)
    return ScenarioRecord(
        seed=seed,
        pv_scale=scenario.params.pv_scale,
        load_scale=scenario.params.load_scale,
        training_overlay=None if overlay is None else overlay.to_dict(),
        baseline_integral=8.5,
        ofo_integral=0.5,
        baseline_violation_time_s=820.0,
        ofo_violation_time_s=80.0,
        recovery_frac=8.0 / 8.5,
        t_control_start=1735,
        t_control_end=3326,
        bl_undervoltage_time_s=820.0,
        bl_overvoltage_time_s=0.0,
        digests=RecordDigests(recipe.id, "reference", digest, *digests, inputs),
    )


def scenario_of(seed: int, recipe: Recipe) -> Scenario:
    return randomize_scenario(seed, experiment=recipe.experiment, settings=recipe.settings)


def resolved_of(records: Iterable[ScenarioRecord], recipes: Iterable[Recipe]) -> tuple[dict[str, Any], ...]:
    """All numbers of the scenarios of records."""
    by_id = {recipe.id: recipe for recipe in recipes}
    return tuple(resolve(scenario_of(record.seed, by_id[digests_of(record).recipe])) for record in records)


def row_of(record: ScenarioRecord) -> CandidateRow:
    """The row of an accepted candidate with nothing measured."""
    digests = digests_of(record)
    return replace(sample_row(record.seed, True, digests.recipe), scenario_digest=digests.scenario_digest)


def sample_row(seed: int, accepted: bool, recipe: str = "") -> CandidateRow:
    """A row of the candidates table with nothing measured."""
    row: dict[str, Any] = dict.fromkeys(field.name for field in fields(CandidateRow))
    reason = "accepted" if accepted else "no_violation"
    row |= {"seed": seed, "accepted": accepted, "reason": reason, "recipe": recipe, "engine": "reference"}
    return CandidateRow(**{**row, "ofo_ran": accepted})


def write_sample(folder: Path, pairs: list[tuple[Recipe, list[int]]]) -> Path:
    """A library of the records that pairs of a recipe and its seeds mean, and one more candidate that was rejected."""
    records = [sample_record(seed, recipe) for recipe, seeds in pairs for seed in seeds]
    rows = [row_of(record) for record in records]
    library = NewLibrary(
        recipes=tuple(recipe for recipe, _ in pairs),
        records=tuple(records),
        resolved=resolved_of(records, [recipe for recipe, _ in pairs]),
        candidates=[*rows, sample_row(999_007, False, pairs[0][0].id)],
        screening=SCREENING,
        versions={"numpy": np.__version__},
        reproducible=True,
    )
    folder.mkdir()
    write_library(folder, library, (sample_traces(record.seed) for record in records))
    return folder


def write_rows(folder: Path, rows: list[CandidateRow], recipe: Recipe, versions: dict[str, str] | None = None) -> Path:
    """A library whose candidates table has these rows, and whose records are the accepted ones."""
    records = tuple(sample_record(row.seed, recipe) for row in rows if row.accepted)
    digests = {record.seed: digests_of(record).scenario_digest for record in records}
    told = [
        replace(row, scenario_digest=row.scenario_digest or digests.get(row.seed), recipe=recipe.id) for row in rows
    ]
    resolved = resolved_of(records, [recipe])
    library = NewLibrary((recipe,), records, resolved, told, SCREENING, versions or {"numpy": np.__version__}, True)
    folder.mkdir()
    write_library(folder, library, (sample_traces(record.seed) for record in records))
    return folder


def edit_metadata(library: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit `metadata.json` as someone would who also corrects its digest."""
    metadata = json.loads((library / METADATA).read_text())
    edit(metadata)
    (library / METADATA).write_text(json.dumps(metadata))
    fix_digests(library)


def fix_digests(library: Path) -> None:
    """Make `digests.json` agree with the files as they are now."""
    if (library / DIGESTS).exists():
        digests = json.loads((library / DIGESTS).read_text())
        digests["sha256"] = {name: file_digest(library / name) for name in digests["sha256"]}
        write_json(library / DIGESTS, digests)
