"""Both rollouts of a record again, for looking at: arrays instead of verdicts.

How far the other engine agrees with a record: decisions, seconds in violation, integrals and verdict.

Run the rollouts of a library's records again, and compare: bit for bit on the engine that screened them, or by
decisions and figures on the other one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib._values import (
    as_flag,
    as_path,
    as_system,
    as_whole_number,
    built_as,
    convert_fields,
    optional,
    require_at_least,
    require_count,
)
from scenario_lib.execution.task_bundle import SharedFile
from scenario_lib.execution.tasks import ERROR, RunOptions, require_usable, run_tasks
from scenario_lib.feeders.experiment import Experiment, VoltageLimits
from scenario_lib.library.library import AnyLibrary, ScenarioLibrary, opened
from scenario_lib.library.provenance import distributions
from scenario_lib.library.recipe import located_experiment, source_experiment
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.model import Scenario
from scenario_lib.screening.criteria import Reason, ScreeningCriteria, as_screened, judge, recovery_frac
from scenario_lib.screening.portable import RolloutFiles, library_at, library_files
from scenario_lib.simulation.agreement import Agreement, at_a_limit, compare_ofo, compare_rollouts
from scenario_lib.simulation.assets import Assets, load_assets
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
from scenario_lib.simulation.rollout import Rollout
from scenario_lib.validation.checks import compare_conditions
from scenario_lib.validation.findings import Finding, Grade


@dataclass(frozen=True, slots=True, repr=False)
class RecordRollouts:
    """A record's scenario, played without control and under OFO.

    Attributes:
        engine: Label of the engine that played it.
        largest_difference_pu2: Of a penalty from the stored traces (pu^2); 0 if they are equal bit for bit.
    """

    record: ScenarioRecord
    scenario: Scenario
    experiment: Experiment
    assets: Assets
    baseline: Rollout
    ofo: Rollout
    engine: str
    largest_difference_pu2: float

    def __repr__(self) -> str:
        return f"RecordRollouts(seed {self.record.seed} on {self.experiment.name}, engine {self.engine})"


def play_record(
    library: AnyLibrary,
    record: ScenarioRecord | int,
    specs_dir: str | Path | None = None,
    system: str | Path | None = None,
) -> RecordRollouts:
    """Play a record again, on the compiled engine unless that does not model the feeder.

    Args:
        library: Where the record is from: its path, or the opened one.
        record: The record, or its index.
        specs_dir: Spec cache to play on; None means the shipped one.
        system: Experiment file, for a library on a feeder of the user's own.

    Raises:
        InvalidSettingError: The feeder does not ship, and no file is given.
        ReplayError: The scenario that is drawn now is not the one that was screened.
        PowerFlowError: The power flow does not converge.
    """
    library = opened(library)
    record, system = library.own_record(record), optional(as_system)("system", system)
    experiment = located_experiment(library.recipe_of(record), system)
    assets = load_assets(experiment, specs_dir)
    scenario = library.materialize(record)
    engine = _engine(record, experiment, assets)
    simulated = simulator(scenario, as_screened(experiment), assets, engine)
    baseline, ofo = simulated.run("none"), simulated.run("ofo")
    pairs = (
        (baseline.penalties, record.baseline_voltage_pen_per_step),
        (ofo.penalties, record.ofo_voltage_pen_per_step),
    )
    apart = max(float(np.max(np.abs(played - stored))) for played, stored in pairs)
    return RecordRollouts(record, scenario, experiment, assets, baseline.rollout, ofo.rollout, engine.label, apart)


def _engine(record: ScenarioRecord, experiment: Experiment, assets: Assets) -> Engine:
    own = None if record.digests is None else engine_from_label(record.digests.engine)
    compiled = own if own is not None and own.name == COMPILED else Engine()
    return compiled if prepare(experiment, assets, compiled) is None else Engine(REFERENCE)


_ENGINE_TOLERANCE = 1e-5
"""Largest difference of an integral between the engines, relative or in pu s."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A record's rollouts on the other engine, and how OFO on both compares."""

    baseline: Simulated
    ofo: Simulated
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class FlipLimits:
    """How much rounding may explain before it counts as a difference; None sets no limit.

    Attributes:
        records: Most records in which an explained flip changes figures.
        integral_frac: Largest change of an OFO integral by one, of that integral.
    """

    records: int | None = None
    integral_frac: float | None = None

    def __post_init__(self) -> None:
        if self.records is not None:
            require_count("explained flips", self.records, 0)
        if self.integral_frac is not None:
            require_at_least("change by explained flips", self.integral_frac, 0)


NO_LIMITS = FlipLimits()


@dataclass(frozen=True, slots=True)
class EngineFinding(Finding):
    """Result of comparing one record.

    Attributes:
        seconds_apart: Seconds with different decisions.
        explained: Whether those that differ first lie on a rounding boundary; also if none differ.
    """

    seconds_apart: int = 0
    explained: bool = True


def compare_engines(
    record: ScenarioRecord,
    replayed: Replayed,
    criteria: ScreeningCriteria,
    limits: VoltageLimits,
    allowed: FlipLimits = NO_LIMITS,
) -> EngineFinding:
    """The grade of a record by its rollouts on the other engine.

    Within tolerance if decisions and seconds in violation are equal but for what lies on an edge, integrals agree
    within `_ENGINE_TOLERANCE`, and the verdict is the same; explained if all of this holds but for what follows from a
    decision on a rounding boundary.
    """
    baseline, ofo, agreement = replayed.baseline, replayed.ofo, replayed.agreement
    compared = (
        _Compared.of(baseline, record.baseline_integral, record.baseline_violation_time_s, limits),
        _Compared.of(ofo, record.ofo_integral, record.ofo_violation_time_s, limits),
    )
    accepted = judge(baseline.measures, ofo.measures, criteria) is Reason.ACCEPTED
    change_frac = compared[1].integral_pu_s / max(record.ofo_integral, _ENGINE_TOLERANCE)
    sentences = (
        f"seed {record.seed}: batch decisions {_decisions(agreement)}",
        f"largest difference of a penalty {_penalty(record, replayed):.3g} pu^2, of an integral "
        f"{max(each.integral_pu_s for each in compared):.3g} pu s, of a time in violation "
        f"{max(each.apart_s for each in compared):g} s ("
        f"{sum(each.either_way_s for each in compared)} s have a voltage at a limit)",
        f"verdict {'equal' if accepted else 'different'}",
    )
    grade = Grade.DIFFERS
    if agreement.explained and accepted and compared[0].agrees:
        grade = Grade.WITHIN_TOLERANCE if compared[1].agrees else _grade_of_flip(agreement, change_frac, allowed)
    return EngineFinding(
        grade, "; ".join(sentences), seconds_apart=agreement.seconds_apart, explained=agreement.explained
    )


def _grade_of_flip(agreement: Agreement, change_frac: float, allowed: FlipLimits) -> Grade:
    """The grade where figures of OFO differ, and nothing else does."""
    within = allowed.integral_frac is None or change_frac <= allowed.integral_frac
    return Grade.EXPLAINED if agreement.seconds_apart and within else Grade.DIFFERS


@dataclass(frozen=True, slots=True)
class _Compared:
    """One rollout beside what its record says.

    Attributes:
        integral_pu_s, apart_s: Differences of the integral and of the time in violation.
        either_way_s: Seconds with a voltage at a limit.
        agrees: Whether the integrals are equal within tolerance, and the times but for such seconds.
    """

    integral_pu_s: float
    apart_s: float
    either_way_s: int
    agrees: bool

    @classmethod
    def of(cls, run: Simulated, integral_pu_s: float, time_s: float, limits: VoltageLimits) -> "_Compared":
        found = run.measures.integral_pu_s
        apart_s = abs(run.measures.violation_time_s - time_s)
        either_way_s = int(np.count_nonzero(at_a_limit(run.rollout.voltages_pu, limits)))
        close = math.isclose(found, integral_pu_s, rel_tol=_ENGINE_TOLERANCE, abs_tol=_ENGINE_TOLERANCE)
        return cls(abs(found - integral_pu_s), apart_s, either_way_s, close and apart_s <= either_way_s)


def _decisions(agreement: Agreement) -> str:
    if not agreement.seconds_apart:
        return "equal"
    first = ", ".join(map(str, agreement.flips)) or f"the first at second {agreement.first_apart}"
    return f"different in {agreement.seconds_apart} s, {first}"


def _penalty(record: ScenarioRecord, replayed: Replayed) -> float:
    """Largest difference of a penalty (pu^2)."""
    baseline = np.abs(replayed.baseline.penalties - record.baseline_voltage_pen_per_step)
    ofo = np.abs(replayed.ofo.penalties - record.ofo_voltage_pen_per_step)
    return float(max(baseline.max(), ofo.max()))


def count_decisions(findings: Sequence[Finding], allowed: FlipLimits = NO_LIMITS) -> Iterator[Finding]:
    """A note on how many records the engines decided alike, if any was compared, and what is over a limit."""
    compared = [finding for finding in findings if isinstance(finding, EngineFinding)]
    apart = [finding for finding in compared if finding.seconds_apart]
    if compared:
        on_edge = sum(finding.explained for finding in apart)
        yield Finding(
            Grade.HELD,
            f"batch decisions on both engines: equal in {len(compared) - len(apart)} of {len(compared)} records, "
            f"different on a rounding boundary in {on_edge}, otherwise different in {len(apart) - on_edge}",
        )
    changed = sum(finding.grade is Grade.EXPLAINED for finding in compared)
    if allowed.records is not None and changed > allowed.records:
        text = f"explained flips change the figures of {changed} records, over the limit {allowed.records}"
        yield Finding(Grade.DIFFERS, text)


TOLERANCE_PU2 = 1e-10
"""Largest difference of a penalty (pu^2) that counts as equal within tolerance: what two processors may differ by."""

_FIGURE_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Settings of a replay.

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
    """Index of a record in, findings out; with the files of the library and of its experiments also elsewhere."""

    library: ScenarioLibrary | None
    files: RolloutFiles
    options: ReplayOptions
    engines: tuple[Engine, ...]

    def __call__(self, index: int) -> list[Finding]:
        return _replay_record(self, index)

    def packed(self) -> "tuple[_Replay, tuple[SharedFile, ...]]":
        assert self.library is not None
        moved, files = self.files.packed()
        elsewhere = replace(self.options, specs_dir=None, system=None, run=RunOptions())
        return replace(self, library=None, files=moved, options=elsewhere), (*files, *library_files(self.library))

    def distributions(self) -> tuple[str, ...]:
        return distributions()

    def at(self, folder: Path) -> "_Replay":
        return replace(self, library=library_at(folder, self.options.from_numbers), files=self.files.at(folder))

    def prepare(self) -> None:
        self.files.prepare(self.engines)


def check_replays(library: ScenarioLibrary, records: list[ScenarioRecord], options: ReplayOptions) -> Iterator[Finding]:
    """Replay records in parallel; findings in the order of the records, notes on what is otherwise here before them."""
    if not records:
        return
    sources = {name: source_experiment(recipe, options.system) for name, recipe in library.recipes.items()}
    experiments = {name: located_experiment(recipe, options.system) for name, recipe in library.recipes.items()}
    conditions = compare_conditions(library, sources, options.specs_dir)
    yield from conditions.notes
    files, engines = RolloutFiles(experiments, options.specs_dir), _engines(records, options)
    files.prepare(engines)
    if options.run.cluster is not None:
        require_usable(options.run.cluster, distributions())
    replay = _Replay(library, files, options, engines)
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


def _engines(records: list[ScenarioRecord], options: ReplayOptions) -> tuple[Engine, ...]:
    """Those that will run: a library screened on the reference engine needs no kernels."""
    engines = (options.engine, *(_own_engine(record) for record in records))
    return tuple(dict.fromkeys(engine for engine in engines if engine is not None))


def _own_engine(record: ScenarioRecord) -> Engine:
    """The engine that screened a record; openg2g's example has but one."""
    return Engine(REFERENCE) if record.digests is None else engine_from_label(record.digests.engine)


def _replay_record(replay: _Replay, index: int) -> list[Finding]:
    """Runs inside a worker."""
    library = replay.library
    assert library is not None
    record = library[index]
    experiment = as_screened(replay.files.experiments["" if record.digests is None else record.digests.recipe])
    assets = load_assets(experiment, replay.files.specs_dir)
    scenario = library.materialize(record)
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
    screening = library.contents.screening_of("" if record.digests is None else record.digests.recipe)
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


def _compare_trace(seed: int, name: str, replayed: Floats, stored: Floats) -> Finding | None:
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
