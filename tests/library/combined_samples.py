"""Libraries to merge and split: real draws of two recipes, made-up figures of all kinds."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from library_samples import SCREENING, resolved_of, row_of, sample_record, sample_row, sample_traces

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.layout import DIGESTED
from scenario_lib.library.npz_store import trace_digest
from scenario_lib.library.recipe import DataDigests, Recipe
from scenario_lib.library.record import ScenarioRecord, violation_kind
from scenario_lib.library.writer import NewLibrary, write_library
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.scenario.settings import RandomizationSettings, Range

_trace = training_trace_recipe()
_DATA = DataDigests("circuit digest", "models digest", _trace.digest, _trace.params)

PLAIN = Recipe(load_experiment("ieee13"), RandomizationSettings(), _DATA)
SUNNY = Recipe(load_experiment("ieee13"), RandomizationSettings(pv_scale=Range(2.0, 3.0)), _DATA)
SAME_DRAWS = Recipe(load_experiment("ieee13"), RandomizationSettings(), replace(_DATA, models="other models"))
"""Draws what PLAIN draws, and is simulated on other power traces."""

FIXED = Recipe(
    replace(load_experiment("ieee34"), overlay=None),
    RandomizationSettings(randomize_ramps=False, pv_scale=Range(1.0, 1.0), load_scale=Range(1.0, 1.0)),
    _DATA,
)
"""Draws batch sizes only, so that many seeds mean one scenario."""

KINDS = ("under", "over", "mixed")
TIMES = {"under": (820.0, 0.0), "over": (0.0, 820.0), "mixed": (820.0, 60.0)}


def kind_at(seed: int) -> str:
    return KINDS[seed // 1000 % 3]


def record_of_kind(seed: int, recipe: Recipe) -> ScenarioRecord:
    record = sample_record(seed, recipe)
    under, over = TIMES[kind_at(seed)]
    assert violation_kind(under, over) == kind_at(seed)
    return replace(record, bl_undervoltage_time_s=under, bl_overvoltage_time_s=over)


def by_another_engine(record: ScenarioRecord) -> ScenarioRecord:
    """The same record with other traces."""
    digests = [trace_digest(trace) for trace in sample_traces(record.seed + 1)]
    return replace(
        record, digests=replace(record.digests, engine="compiled", baseline_digest=digests[0], ofo_digest=digests[1])
    )


def write_combined(
    folder: Path,
    pairs: Iterable[tuple[Recipe, Iterable[int]]],
    rejected: Iterable[int] = (),
    engine: str = "reference",
    **changes,
) -> Path:
    """A library of the given recipes' seeds; `rejected` are more seeds of the first recipe, tried in vain."""
    listed = [(recipe, list(seeds)) for recipe, seeds in pairs]
    records = [record_of_kind(seed, recipe) for recipe, seeds in listed for seed in seeds]
    if engine == "compiled":
        records = [by_another_engine(record) for record in records]
    records.sort(key=lambda record: (record.seed, record.digests.recipe))
    rows = [replace(row_of(record), engine=engine) for record in records]
    rows += [sample_row(seed, False, listed[0][0].id) for seed in rejected]
    library = NewLibrary(
        recipes=tuple(recipe for recipe, _ in listed),
        records=tuple(records),
        resolved=resolved_of(records, [recipe for recipe, _ in listed]),
        candidates=sorted(rows, key=lambda row: (row.seed, row.recipe)),
        screening=SCREENING,
        versions={"numpy": "2.0"},
        reproducible=True,
    )
    folder.mkdir(parents=True)
    traces = (sample_traces(record.seed + (engine == "compiled")) for record in records)
    write_library(folder, replace(library, **changes), traces)
    return folder


def seeds_between(first: int, last: int) -> list[int]:
    """Candidates' seeds by position, the last one left out."""
    return [position * 1000 + 7 for position in range(first, last)]


def content(library: Path) -> dict[str, bytes]:
    """All files that are compared byte for byte."""
    return {name: (library / name).read_bytes() for name in DIGESTED}
