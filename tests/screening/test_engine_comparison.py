"""Two engines on one record: what agrees, what may fall either way, and what differs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scenario_lib.feeders.catalogue import load_experiment
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.engine_comparison import EngineFinding, Replayed, compare_engines, count_decisions
from scenario_lib.screening.findings import Finding, Grade
from scenario_lib.screening.replay import ReplayOptions
from scenario_lib.screening.validate import validate_library
from scenario_lib.simulation.agreement import Agreement, Flip
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import Engine, simulator

EQUAL = Agreement(1e-9, 0, None)
ON_EDGE = Flip(1800, ("default", "Llama-3.1-8B"), 256, 128, distance=1e-6, reach=2e-6)


@pytest.fixture(scope="module")
def record(built_library: Path) -> ScenarioRecord:
    return ScenarioLibrary(built_library)[0]


@pytest.fixture(scope="module")
def replayed(built_library: Path, record: ScenarioRecord) -> Replayed:
    """The record, which the reference engine screened, on the compiled one."""
    experiment = load_experiment("ieee13")
    scenario = ScenarioLibrary(built_library).materialize(record)
    ready = simulator(scenario, experiment, load_assets(experiment), Engine())
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
