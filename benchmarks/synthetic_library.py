"""A library of any size without simulating: real draws with right digests, made-up measures and penalties.

The penalties have the shape of real ones: zero but for a window, in runs, a quarter of the hour without control and a
tenth under OFO.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from scenario_lib._arrays import Floats
from scenario_lib._files import digest_of
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.npz_store import trace_digest
from scenario_lib.library.provenance import versions
from scenario_lib.library.recipe import DataDigests, Recipe, inputs_digest
from scenario_lib.library.record import CONTRACT_FIELDS, RecordDigests, ScenarioRecord, digests_of
from scenario_lib.library.writer import NewLibrary, write_library
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.scenario.model import resolve
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.simulation.engines import REFERENCE, Engine

_ENGINE = Engine(REFERENCE).label
_BLOCK = 200


def synthetic_recipe(system: str = "ieee13") -> Recipe:
    """A shipped feeder with sampled profiles, the slowest draw; the digests of circuit and models are made up."""
    settings = RandomizationSettings(randomize_pv_profile=True, randomize_tvl_profile=True)
    trace = training_trace_recipe()
    return Recipe(load_experiment(system), settings, DataDigests("synthetic", "synthetic", trace.digest, trace.params))


def synthetic_traces(seed: int) -> tuple[Floats, Floats]:
    """Made-up (baseline, OFO) penalties (pu^2) of an hour, mostly zero."""
    rng = np.random.default_rng(seed)
    start, length = int(rng.integers(0, 1800)), int(rng.integers(600, 1800))
    seconds = np.arange(3600)
    inside = (seconds >= start) & (seconds < start + length) & (rng.random(3600) < 0.8)
    baseline = np.where(inside, rng.random(3600) * 1e-3, 0.0)
    return baseline, np.where(seconds < start + length // 3, baseline / 10, 0.0)


def synthetic_record(recipe: Recipe, seed: int) -> tuple[ScenarioRecord, dict[str, Any]]:
    """A record with right digests and the figures of its made-up penalties, and all numbers of its scenario."""
    scenario = randomize_scenario(seed, experiment=recipe.experiment, settings=recipe.settings)
    overlay, resolved = scenario.params.training_overlay, resolve(scenario)
    baseline, ofo = synthetic_traces(seed)
    broken = np.flatnonzero(baseline)
    record = ScenarioRecord(
        seed=seed,
        pv_scale=scenario.params.pv_scale,
        load_scale=scenario.params.load_scale,
        training_overlay=None if overlay is None else overlay.to_dict(),
        baseline_integral=float(baseline.sum()),
        ofo_integral=float(ofo.sum()),
        baseline_violation_time_s=float(len(broken)),
        ofo_violation_time_s=float(np.count_nonzero(ofo)),
        recovery_frac=float(1 - ofo.sum() / baseline.sum()),
        t_control_start=int(broken[0]),
        t_control_end=int(broken[-1]) + 1,
        bl_undervoltage_time_s=float(len(broken)),
        bl_overvoltage_time_s=0.0,
    )
    digest = digest_of(resolved)
    digests = RecordDigests(
        recipe=recipe.id,
        engine=_ENGINE,
        scenario_digest=digest,
        baseline_digest=trace_digest(baseline),
        ofo_digest=trace_digest(ofo),
        inputs_digest=inputs_digest(recipe, _ENGINE, digest, overlay is not None),
    )
    return replace(record, digests=digests), resolved


def _row(record: ScenarioRecord) -> CandidateRow:
    digests = digests_of(record)
    row = dict.fromkeys(field.name for field in fields(CandidateRow))
    shared = {name: getattr(record, name) for name in row.keys() & set(CONTRACT_FIELDS)}
    stated = {name: getattr(digests, name) for name in ("recipe", "engine", "scenario_digest")}
    return CandidateRow(**{**row, **shared, **stated, "accepted": True, "reason": "accepted", "ofo_ran": True})


def _block(recipe: Recipe, seeds: list[int]) -> list[tuple[ScenarioRecord, dict[str, Any]]]:
    return [synthetic_record(recipe, seed) for seed in seeds]


def _records(recipe: Recipe, seeds: list[int], jobs: int) -> Iterator[tuple[ScenarioRecord, dict[str, Any]]]:
    blocks = (seeds[first : first + _BLOCK] for first in range(0, len(seeds), _BLOCK))
    make = delayed(partial(_block, recipe))
    for block in Parallel(n_jobs=jobs, return_as="generator")(make(block) for block in blocks):
        yield from block


def write_synthetic_library(folder: Path, n_records: int, jobs: int = 1) -> Path:
    """Write a library of `n_records` into a new directory; everything in it is held in memory, the penalties apart."""
    recipe = synthetic_recipe()
    records, resolved = zip(*_records(recipe, [1000 * i + 7 for i in range(n_records)], jobs), strict=True)
    library = NewLibrary(
        recipes=(recipe,),
        records=records,
        resolved=resolved,
        candidates=[_row(record) for record in records],
        screening=ScreeningCriteria().to_dict(),
        versions=versions(),
        reproducible=True,
    )
    folder.mkdir(parents=True)
    write_library(folder, library, (synthetic_traces(record.seed) for record in records))
    return folder
