"""Run the rollouts of a library's records again, and compare: bit for bit on the engine that screened them, or by
decisions and figures on the other one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from scenario_lib.execution.tasks import ERROR, RunOptions, run_tasks
from scenario_lib.feeders.arguments import (
    as_flag,
    as_path,
    as_system,
    as_whole_number,
    built_as,
    convert_fields,
    optional,
)
from scenario_lib.feeders.checks import require_count
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.recipe import located_experiment, source_experiment
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.traces import Array
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.screening.conditions import compare_conditions
from scenario_lib.screening.criteria import ScreeningCriteria, recovery_frac
from scenario_lib.screening.engine_comparison import NO_LIMITS, FlipLimits, Replayed, compare_engines, count_decisions
from scenario_lib.screening.findings import Finding, Grade
from scenario_lib.screening.tuning import as_screened
from scenario_lib.simulation.agreement import compare_ofo, compare_rollouts
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import (
    COMPILED,
    REFERENCE,
    Engine,
    Simulated,
    as_engine,
    engine_from_label,
    prepare,
    simulator,
)

TOLERANCE_PU2 = 1e-10
"""Largest difference of a penalty (pu^2) that counts as equal within tolerance: what two processors may differ by."""

_FIGURE_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How rollouts are replayed.

    Attributes:
        records: How many records, spread over the library; 0 for none, None for all.
        specs_dir: Spec cache to replay on; None means the shipped one.
        system: Experiment file, for a library on a feeder of the user's own.
        engine: Engine to replay on, or its label; None means the one that screened each record.
        from_numbers: Make scenarios of their stored numbers instead of drawing them.
        flips: How much may differ on the other engine because of a decision on a rounding boundary.
    """

    records: int | None = 0
    specs_dir: Path | None = None
    system: str | None = None
    engine: Engine | None = None
    run: RunOptions = RunOptions()
    from_numbers: bool = False
    flips: FlipLimits = NO_LIMITS

    def __post_init__(self) -> None:
        convert_fields(self, records=optional(as_whole_number), specs_dir=optional(as_path), system=optional(as_system))
        convert_fields(self, engine=optional(as_engine), run=built_as(RunOptions), from_numbers=as_flag)
        if self.records is not None:
            require_count("records", self.records, 0)


@dataclass(frozen=True, slots=True)
class _Replay:
    """What every worker needs."""

    library: ScenarioLibrary
    experiments: dict[str, Experiment]
    options: ReplayOptions


def check_replays(library: ScenarioLibrary, records: list[ScenarioRecord], options: ReplayOptions) -> Iterator[Finding]:
    """Replay records in parallel; findings in the order of the records, notes on what is otherwise here before them."""
    if not records:
        return
    sources = {name: source_experiment(recipe, options.system) for name, recipe in library.recipes.items()}
    experiments = {name: located_experiment(recipe, options.system) for name, recipe in library.recipes.items()}
    conditions = compare_conditions(library, sources, options.specs_dir)
    yield from conditions.notes
    _prepare_engines(records, experiments, options)
    replay = partial(_replay_record, _Replay(library, experiments, options))
    outcomes = run_tasks(replay, [record.index for record in records], options.run)
    found: list[Finding] = []
    for outcome in sorted(outcomes, key=lambda outcome: outcome.task):
        record = library[outcome.task]
        if outcome.failure is not None:
            # A timeout or a dead worker says nothing about the library.
            grade = Grade.DIFFERS if outcome.failure.code == ERROR else Grade.NOT_VERIFIABLE
            text = f"{library.path}: replay of seed {record.seed} failed: {outcome.failure.message}"
            found.append(Finding(grade, text, record=record.index))
        for finding in outcome.result or ():
            causes = conditions.causes(record) if options.engine in (None, _own_engine(record)) else ()
            found.append(replace(finding, causes=causes, record=record.index))
    yield from found
    yield from count_decisions(found, options.flips)


def _prepare_engines(records: list[ScenarioRecord], experiments: dict[str, Experiment], options: ReplayOptions) -> None:
    """Only what will run: a library screened on the reference engine needs no kernels."""
    engines = [options.engine, *(_own_engine(record) for record in records)]
    if any(engine is not None and engine.name == COMPILED for engine in engines):
        for experiment in experiments.values():
            prepare(experiment, load_assets(experiment, options.specs_dir), Engine())


def _own_engine(record: ScenarioRecord) -> Engine:
    """The engine that screened a record; openg2g's example has but one."""
    return Engine(REFERENCE) if record.proof is None else engine_from_label(record.proof.engine)


def _replay_record(replay: _Replay, index: int) -> list[Finding]:
    """Runs inside a worker."""
    record = replay.library[index]
    experiment = as_screened(replay.experiments["" if record.proof is None else record.proof.recipe])
    assets = load_assets(experiment, replay.options.specs_dir)
    scenario = replay.library.materialize(record)
    own = _own_engine(record)
    asked = replay.options.engine or own
    run = simulator(scenario, experiment, assets, asked)
    baseline, ofo = run.run("none"), run.run("ofo")
    if asked == own:
        return _compare_exactly(record, baseline, ofo)
    screened = simulator(scenario, experiment, assets, own).run("ofo")
    rollouts = {asked: ofo.rollout, own: screened.rollout}
    if rollouts.keys() == {Engine(), Engine(REFERENCE)}:
        agreement = compare_ofo(scenario, experiment, assets, rollouts[Engine()], rollouts[Engine(REFERENCE)])
    else:
        agreement = compare_rollouts(*rollouts.values())
    screening = replay.library.contents.screening_of("" if record.proof is None else record.proof.recipe)
    criteria = ScreeningCriteria(**screening)  # type: ignore[arg-type]
    replayed = Replayed(baseline, ofo, agreement)
    return [compare_engines(record, replayed, criteria, experiment.limits, replay.options.flips)]


def _compare_exactly(record: ScenarioRecord, baseline: Simulated, ofo: Simulated) -> list[Finding]:
    traces = (
        _compare_trace(record.seed, "baseline", baseline.penalties, record.baseline_voltage_pen_per_step),
        _compare_trace(record.seed, "ofo", ofo.penalties, record.ofo_voltage_pen_per_step),
    )
    findings = [finding for finding in traces if finding is not None]
    return findings or list(_compare_figures(record, baseline.measures, ofo.measures))


def _compare_trace(seed: int, name: str, replayed: Array, stored: Array) -> Finding | None:
    if replayed.shape != stored.shape:
        text = f"seed {seed}: the {name} trace has {len(stored)} seconds, replayed it has {len(replayed)}"
        return Finding(Grade.DIFFERS, text)
    if np.array_equal(replayed, stored):
        return None
    second = int(np.flatnonzero(replayed != stored)[0])
    largest = float(np.max(np.abs(replayed - stored)))
    grade = Grade.WITHIN_TOLERANCE if largest <= TOLERANCE_PU2 else Grade.DIFFERS
    return Finding(
        grade,
        f"seed {seed}: the {name} trace first differs at second {second} (replayed {replayed[second]!r}, stored "
        f"{stored[second]!r}); largest difference {largest:.3g} pu^2",
    )


def _compare_figures(record: ScenarioRecord, baseline: VoltageMeasures, ofo: VoltageMeasures) -> Iterator[Finding]:
    """The record's figures must be those of its rollouts; sums may be in another order."""
    replayed = {
        "baseline_integral": baseline.integral_pu_s,
        "ofo_integral": ofo.integral_pu_s,
        "baseline_violation_time_s": baseline.violation_time_s,
        "ofo_violation_time_s": ofo.violation_time_s,
        "bl_undervoltage_time_s": baseline.undervoltage_time_s,
        "bl_overvoltage_time_s": baseline.overvoltage_time_s,
        "recovery_frac": recovery_frac(baseline, ofo),
    }
    for name, value in replayed.items():
        stored = getattr(record, name)
        if not math.isclose(value, stored, rel_tol=_FIGURE_TOLERANCE, abs_tol=_FIGURE_TOLERANCE):
            yield Finding(Grade.DIFFERS, f"seed {record.seed}: {name} is {stored!r}, replayed it is {value!r}")
