"""A feeder of the user's own, from its files to candidates worth keeping."""

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scenario_lib.errors import DataFileError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.feeders.sites import TimeVaryingLoad
from scenario_lib.metrics.voltage import measure_voltages, penalty_trace
from scenario_lib.scenario.randomize import base_scenario, randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.candidate import MeasurePlan, measure_candidate
from scenario_lib.screening.criteria import Reason, ScreeningCriteria, judge
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import ENGINES, Engine, simulator
from scenario_lib.simulation.opendss.check import check_feeder
from scenario_lib.simulation.rollout import Rollout, run_reference


@pytest.fixture(scope="module", params=ENGINES)
def plan(village: Experiment, request: pytest.FixtureRequest) -> MeasurePlan:
    """The build's defaults, on the shipped power traces."""
    check_feeder(village)
    return MeasurePlan(village, RandomizationSettings(), ScreeningCriteria(), engine=Engine(request.param))


def test_a_build_on_it_would_accept_within_few_candidates(plan: MeasurePlan) -> None:
    candidates = [measure_candidate(plan, seed) for seed in (7, 1007, 2007)]
    verdicts = []
    for measured, traces in candidates:
        assert measured.failure is None
        assert measured.baseline is not None
        assert measured.baseline.undervoltage_time_s > 100
        assert measured.baseline.overvoltage_time_s == 0
        assert measured.ofo is not None
        verdicts.append(judge(measured.baseline, measured.ofo, plan.criteria))
        assert (traces is not None) is (verdicts[-1] is Reason.ACCEPTED)
    assert verdicts == [Reason.ACCEPTED, Reason.RECOVERY_BELOW_FLOOR, Reason.ACCEPTED]


def test_candidates_are_the_same_from_anywhere(plan: MeasurePlan, tmp_path: Path) -> None:
    here, traces = measure_candidate(plan, 7)
    with contextlib.chdir(tmp_path):
        there, traces_there = measure_candidate(plan, 7)
        assert Path.cwd() == tmp_path
    assert there == here
    assert traces is not None
    assert traces_there is not None
    assert np.array_equal(traces_there, traces)
    assert traces.shape == (2, 3600)


def rollout(experiment: Experiment, n_steps: int = 30) -> Rollout:
    return run_reference(base_scenario(experiment), experiment, load_assets(experiment), n_steps=n_steps)


def by_bus_phase(one: Rollout, step: int) -> dict[tuple[str, int], float]:
    return dict(zip(one.bus_phases, one.voltages_pu[step].tolist(), strict=True))


def test_its_single_phase_load_pulls_down_one_phase(village: Experiment) -> None:
    """More of it lowers phase 2 of the lateral and of the line before it; the other phases hardly move."""
    heavy = replace(village, loads=(replace(village.loads[0], peak_kw_per_phase=60.0),))
    light, loaded = by_bus_phase(rollout(village), 29), by_bus_phase(rollout(heavy), 29)
    moved = {pair: loaded[pair] - light[pair] for pair in light}
    assert moved["lane", 2] < moved["quay", 2] < moved["harbour", 2] < -1e-3
    assert all(abs(change) < -0.5 * moved["lane", 2] for (_, phase), change in moved.items() if phase != 2)
    assert ("lane", 1) not in moved


def test_elements_on_two_phases_and_several_at_one_bus(village: Experiment) -> None:
    more = replace(
        village, loads=(*village.loads, TimeVaryingLoad("farm", 4.16, 15.0), TimeVaryingLoad("farm", 4.16, 15.0))
    )
    check_feeder(more)
    without, with_farm = by_bus_phase(rollout(village), 29), by_bus_phase(rollout(more), 29)
    for phase in (1, 3):
        assert with_farm["farm", phase] < without["farm", phase] - 1e-4
    assert set(with_farm) == set(without)


def test_its_delta_site_runs(village: Experiment) -> None:
    delta = replace(village, sites=(replace(village.sites[0], connection_type="delta"),))
    wye, other = rollout(village), rollout(delta)
    assert np.array_equal(other.power_w, wye.power_w)
    assert not np.allclose(other.voltages_pu, wye.voltages_pu, atol=1e-6)
    assert other.voltages_pu.min() > 0.8


def test_its_limits_are_its_own(village: Experiment) -> None:
    voltages = rollout(village).voltages_pu
    strict, wide = (measure_voltages(voltages, low, 1.05) for low in (0.98, 0.5))
    assert strict.violation_time_s == 30
    assert wide.violation_time_s == 0
    assert penalty_trace(voltages, 0.98, 1.05).min() > 0


def test_a_seed_means_the_same_wherever_its_files_lie(village: Experiment, village_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    for path in village_file.parent.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    moved = load_experiment(folder / village_file.name)
    check_feeder(moved)
    assert randomize_scenario(7, experiment=moved) == randomize_scenario(7, experiment=village)
    assert np.array_equal(rollout(moved).voltages_pu, rollout(village).voltages_pu)


def test_a_circuit_in_several_files_runs(village: Experiment, village_file: Path, tmp_path: Path) -> None:
    text = village_file.with_name("village.dss").read_text(encoding="utf-8")
    before, after = text.split("New Load.school", 1)
    loads, end = after.split("Set VoltageBases", 1)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "loads.dss").write_text(f"New Load.school{loads}", encoding="utf-8")
    main = tmp_path / "village.dss"
    main.write_text(f"{before}Redirect parts/loads.dss\nSet VoltageBases{end}", encoding="utf-8")
    split = replace(village, feeder=replace(village.feeder, circuit=str(main)))
    check_feeder(split)
    assert np.array_equal(rollout(split).voltages_pu, rollout(village).voltages_pu)


def test_checking_leaves_no_trace(village: Experiment, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        check_feeder(village)
        assert Path.cwd() == tmp_path
        broken = replace(village, feeder=replace(village.feeder, initial_taps_pu={"reg9": 1.0}))
        with pytest.raises(DataFileError, match="reg9"):
            check_feeder(broken)
        assert Path.cwd() == tmp_path
    assert sorted(path.name for path in Path(village.feeder.circuit).parent.iterdir()) == [
        "experiment.toml",
        "pv.csv",
        "village.dss",
    ]


def without_regulators(village: Experiment, folder: Path) -> Experiment:
    """The village with a plain line in place of what its regulators control, as many users' feeders are."""
    lines = Path(village.feeder.circuit).read_text().splitlines()
    kept = [line for line in lines if not line.strip().lower().startswith("new regcontrol")]
    assert len(kept) < len(lines)
    circuit = folder / "plain.dss"
    circuit.write_text("\n".join(kept))
    return replace(village, feeder=replace(village.feeder, circuit=str(circuit), initial_taps_pu={}))


def test_a_feeder_without_regulators_runs_on_both_engines(village: Experiment, tmp_path: Path) -> None:
    plain = without_regulators(village, tmp_path)
    check_feeder(plain)
    assets = load_assets(plain)
    scenario = randomize_scenario(7, experiment=plain)
    compiled, reference = (
        simulator(scenario, plain, assets, Engine(name)).run("ofo").rollout for name in ("compiled", "reference")
    )
    assert np.array_equal(compiled.batch_sizes, reference.batch_sizes)
    np.testing.assert_allclose(compiled.voltages_pu, reference.voltages_pu, rtol=0, atol=5e-8)
