"""Two engines on one record: what agrees, what may fall either way, and what differs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.screening.criteria import ScreeningCriteria, as_screened
from scenario_lib.simulation.agreement import Agreement, DecisionFlip
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import Engine, simulator
from scenario_lib.validation.findings import Finding, Grade, worst
from scenario_lib.validation.replay import (
    EngineFinding,
    FlipLimits,
    Replayed,
    ReplayOptions,
    compare_engines,
    count_decisions,
)
from scenario_lib.validation.validate import validate_library

EQUAL = Agreement(1e-9, 0, None)
ON_EDGE = DecisionFlip(1800, ("default", "Llama-3.1-8B"), 256, 128, distance=1e-6, reach=2e-6)


@pytest.fixture(scope="module")
def record(built_library: Path) -> ScenarioRecord:
    return ScenarioLibrary(built_library)[0]


@pytest.fixture(scope="module")
def replayed(built_library: Path, record: ScenarioRecord) -> Replayed:
    """The record, which the reference engine screened, on the compiled one."""
    experiment = load_experiment("ieee13")
    scenario = ScenarioLibrary(built_library).materialize(record)
    ready = simulator(scenario, as_screened(experiment), load_assets(experiment), Engine())
    return Replayed(ready.run("none"), ready.run("ofo"), EQUAL)


def compared(record: ScenarioRecord, replayed: Replayed) -> EngineFinding:
    return compare_engines(record, replayed, ScreeningCriteria(), load_experiment("ieee13").limits)


def test_equal_decisions(record: ScenarioRecord, replayed: Replayed) -> None:
    finding = compared(record, replayed)
    assert finding.grade is Grade.WITHIN_TOLERANCE
    assert finding.message.startswith("seed 7: batch decisions equal; largest difference of a penalty ")
    assert finding.message.endswith("; verdict equal")


@pytest.mark.parametrize(
    ("agreement", "grade", "text"),
    [
        (Agreement(1e-9, 3, 1800, (ON_EDGE,)), Grade.WITHIN_TOLERANCE, "1.0e-06 from the rounding boundary"),
        (Agreement(1e-9, 3, 1800, (replace(ON_EDGE, reach=9e-7),)), Grade.DIFFERS, "beyond the 9.0e-07"),
        (Agreement(1e-9, 3, 1800, (ON_EDGE, replace(ON_EDGE, distance=0.1))), Grade.DIFFERS, "beyond the 2.0e-06"),
        (Agreement(6e-8, 3, 1800, (ON_EDGE,)), Grade.DIFFERS, "within the 2.0e-06"),
        (Agreement(1e-9, 3, 1800), Grade.DIFFERS, "the first at second 1800"),
    ],
)
def test_decisions_that_differ(
    record: ScenarioRecord, replayed: Replayed, agreement: Agreement, grade: Grade, text: str
) -> None:
    finding = compared(record, replace(replayed, agreement=agreement))
    assert finding.grade is grade
    assert "batch decisions different in 3 s, " in finding.message
    assert text in finding.message


FLIPPED = Agreement(1e-9, 434, 1800, (ON_EDGE,))


@pytest.mark.parametrize(
    ("agreement", "factor", "limit", "grade"),
    [
        (FLIPPED, 1.028, None, Grade.EXPLAINED),
        (FLIPPED, 1.028, 0.03, Grade.EXPLAINED),
        (FLIPPED, 1.028, 0.02, Grade.DIFFERS),
        (FLIPPED, 0.972, 0.0, Grade.DIFFERS),
        (FLIPPED, 1 + 1e-6, 0.0, Grade.WITHIN_TOLERANCE),
        (EQUAL, 1.028, None, Grade.DIFFERS),
        (replace(FLIPPED, flips=()), 1.028, None, Grade.DIFFERS),
        (replace(FLIPPED, voltage_pu=6e-8), 1.028, None, Grade.DIFFERS),
        (replace(FLIPPED, flips=(ON_EDGE, replace(ON_EDGE, distance=0.1))), 1.028, None, Grade.DIFFERS),
    ],
)
def test_figures_that_an_explained_flip_changes_have_a_grade_of_their_own(
    record: ScenarioRecord, replayed: Replayed, agreement: Agreement, factor: float, limit: float | None, grade: Grade
) -> None:
    measures = replace(replayed.ofo.measures, integral_pu_s=record.ofo_integral * factor)
    flipped = replace(replayed, ofo=replace(replayed.ofo, measures=measures), agreement=agreement)
    found = compare_engines(
        record, flipped, ScreeningCriteria(), load_experiment("ieee13").limits, FlipLimits(integral_frac=limit)
    )
    assert found.grade is grade
    baseline = replace(replayed.baseline.measures, integral_pu_s=record.baseline_integral * 1.028)
    assert compared(record, replace(flipped, baseline=replace(replayed.baseline, measures=baseline))).grade is (
        Grade.DIFFERS
    )


def test_a_flip_of_the_verdict_is_never_explained_away(record: ScenarioRecord, replayed: Replayed) -> None:
    measures = replace(replayed.ofo.measures, integral_pu_s=record.baseline_integral)
    finding = compared(record, replace(replayed, ofo=replace(replayed.ofo, measures=measures), agreement=FLIPPED))
    assert finding.grade is Grade.DIFFERS
    assert finding.message.endswith("verdict different")


@pytest.mark.parametrize(("limit", "grade"), [(None, Grade.EXPLAINED), (2, Grade.EXPLAINED), (1, Grade.DIFFERS)])
def test_the_number_of_explained_flips_may_be_limited(limit: int | None, grade: Grade) -> None:
    flips = [EngineFinding(Grade.EXPLAINED, "", seconds_apart=434)] * 2
    counted = list(count_decisions(flips, FlipLimits(records=limit)))
    assert worst([*flips, *counted]) is grade
    assert [each.message for each in counted[1:]] == (
        [] if grade is Grade.EXPLAINED else ["explained flips change the figures of 2 records, over the limit 1"]
    )


def test_only_an_explained_grade_has_another_exit_code() -> None:
    assert {grade: grade.exit_code for grade in Grade} == {
        Grade.HELD: 0,
        Grade.DIFFERS: 1,
        Grade.NOT_VERIFIABLE: 3,
        Grade.WITHIN_TOLERANCE: 4,
        Grade.EXPLAINED: 0,
    }


@pytest.mark.parametrize(("distance_pu", "grade"), [(4e-8, Grade.WITHIN_TOLERANCE), (6e-8, Grade.DIFFERS)])
def test_a_second_counts_either_way_where_a_voltage_is_at_the_limit(
    record: ScenarioRecord, replayed: Replayed, distance_pu: float, grade: Grade
) -> None:
    voltages_pu = replayed.ofo.rollout.voltages_pu.copy()
    voltages_pu[5] = 1.0
    voltages_pu[5, 0] = 0.95 + distance_pu
    rollout = replace(replayed.ofo.rollout, voltages_pu=voltages_pu)
    time_s = record.ofo_violation_time_s - 1
    ofo = replace(replayed.ofo, rollout=rollout, measures=replace(replayed.ofo.measures, violation_time_s=time_s))
    finding = compared(record, replace(replayed, ofo=ofo))
    assert finding.grade is grade
    assert "of a time in violation 1 s" in finding.message


@pytest.mark.parametrize(("factor", "grade"), [(1 + 9e-6, Grade.WITHIN_TOLERANCE), (1 + 2e-5, Grade.DIFFERS)])
def test_integrals(record: ScenarioRecord, replayed: Replayed, factor: float, grade: Grade) -> None:
    measures = replace(replayed.baseline.measures, integral_pu_s=record.baseline_integral * factor)
    finding = compared(record, replace(replayed, baseline=replace(replayed.baseline, measures=measures)))
    assert finding.grade is grade


def test_another_verdict_differs(record: ScenarioRecord, replayed: Replayed) -> None:
    strict = ScreeningCriteria(min_baseline_integral=record.baseline_integral * 2)
    finding = compare_engines(record, replayed, strict, load_experiment("ieee13").limits)
    assert finding.grade is Grade.DIFFERS
    assert finding.message.endswith("verdict different")


def test_decisions_are_counted() -> None:
    findings = [
        EngineFinding(Grade.WITHIN_TOLERANCE, "", seconds_apart=seconds, explained=explained)
        for seconds, explained in ((0, True), (0, True), (1, True), (7, False))
    ]
    assert list(count_decisions([*findings, Finding(Grade.HELD, "")])) == [
        Finding(
            Grade.HELD,
            "batch decisions on both engines: equal in 2 of 4 records, different on a rounding boundary in 1, "
            "otherwise different in 1",
        )
    ]
    assert list(count_decisions([Finding(Grade.HELD, "")])) == []


def test_a_library_on_the_other_engine(built_library: Path) -> None:
    report = validate_library(built_library, ReplayOptions(records=1, engine=Engine()))
    compared, counted = report.findings
    assert report.grade is compared.grade is Grade.WITHIN_TOLERANCE
    assert "batch decisions equal" in compared.message
    assert counted.message.startswith("batch decisions on both engines: equal in 1 of 1 records")


def test_the_accurate_mode_promises_nothing(built_library: Path) -> None:
    """What its decisions differ in is no matter of rounding."""
    report = validate_library(built_library, ReplayOptions(records=1, engine=Engine(tolerance="accurate")))
    found = report.findings[0].message
    assert "rounding boundary" not in found
    assert np.isin(report.grade, (Grade.WITHIN_TOLERANCE, Grade.DIFFERS))
