"""Leaks: shared seeds, equal scenarios, near neighbours."""

import json
from pathlib import Path

import pytest
from combined_samples import FIXED, PLAIN, SAME_DRAWS, SUNNY, seeds_between, write_combined

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.leaks import find_leaks, parameters, standardised
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_combined(tmp_path_factory.mktemp("leaks") / "plain", [(PLAIN, seeds_between(0, 20))])


def test_libraries_of_other_seeds_have_nothing_in_common(plain: Path, tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(PLAIN, seeds_between(20, 30))])
    report = find_leaks(plain, other)
    assert not report.leaks
    assert (report.records, report.shared_seeds, report.equal_scenarios, report.near) == ((20, 10), (), (), None)
    assert 0 < report.between["min"] <= report.between["median"] <= report.between["max"]
    assert report.within["median"] == pytest.approx(report.between["median"], rel=0.3), "drawn from one distribution"
    assert report.closest[0].distance == report.between["min"]
    assert [pair.distance for pair in report.closest] == sorted(pair.distance for pair in report.closest)
    assert report.lines()[-1] == "nothing in common"


def test_a_threshold_makes_neighbours_leaks(plain: Path, tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(PLAIN, seeds_between(20, 30))])
    nearest = find_leaks(plain, other).between["min"]
    assert find_leaks(plain, other, nearer_than=nearest).near == 0
    report = find_leaks(plain, other, nearer_than=nearest * 1.001)
    assert (report.near, report.leaks) == (1, True)


def test_shared_seeds_are_leaks_also_under_other_settings(plain: Path, tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(SUNNY, seeds_between(15, 25))])
    report = find_leaks(plain, other)
    assert report.leaks
    assert report.shared_seeds == tuple(seeds_between(15, 20))
    assert report.equal_scenarios == ()
    assert "5, such as 15007" in "\n".join(report.lines())
    assert json.loads(json.dumps(report.to_dict()))["leaks"] is True


def test_equal_scenarios_are_found_whatever_the_recipe_says(plain: Path, tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(SAME_DRAWS, [7, 30_007])])
    report = find_leaks(plain, other)
    assert report.equal_scenarios == ((7, 7),)
    assert report.between["min"] == 0.0
    assert (report.closest[0].first_seed, report.closest[0].second_seed) == (7, 7)


def test_equal_scenarios_of_other_seeds_are_found(tmp_path: Path) -> None:
    first = write_combined(tmp_path / "first", [(FIXED, seeds_between(0, 40))])
    second = write_combined(tmp_path / "second", [(FIXED, seeds_between(40, 80))])
    report = find_leaks(first, second)
    assert report.shared_seeds == ()
    assert report.equal_scenarios
    scenarios = [
        randomize_scenario(seed, experiment=FIXED.experiment, settings=FIXED.settings)
        for seed in report.equal_scenarios[0]
    ]
    assert scenarios[0].sites == scenarios[1].sites
    assert report.leaks


def test_a_single_record_has_no_neighbour_within(plain: Path, tmp_path: Path) -> None:
    single = write_combined(tmp_path / "single", [(PLAIN, [30_007])])
    report = find_leaks(single, plain)
    assert report.within is None
    assert "only one record" in "\n".join(report.lines())


def test_a_library_by_openg2gs_example_can_be_compared(plain: Path) -> None:
    seeds = {record.seed for record in ScenarioLibrary(OPENG2G)}
    assert set(find_leaks(plain, OPENG2G).shared_seeds) == seeds & set(seeds_between(0, 20))


@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_parameters_name_every_draw_that_has_a_distance(system: str) -> None:
    experiment = load_experiment(system)
    settings = RandomizationSettings(
        randomize_pv_profile=True, randomize_tvl_profile=True, n_ramps_per_site_choices=(2,)
    )
    points = [parameters(randomize_scenario(seed, experiment=experiment, settings=settings)) for seed in range(40)]
    names = {name for point in points for name in point}
    first = experiment.sites[0]
    assert {"pv_scale", "load_scale", f"{first.name}.ramp[1].fraction", f"{first.name}.ramps"} <= names
    assert any(name.startswith("pv[0].cloud[0].") for name in names)
    assert ("overlay.n_gpus" in names) == (experiment.overlay is not None)
    here, there = standardised(points[:30], points[30:])
    assert here.shape[1] == there.shape[1]
    assert here.shape[1] > 20


def test_parameters_are_those_of_the_scenario() -> None:
    scenario = randomize_scenario(7, experiment=PLAIN.experiment, settings=PLAIN.settings)
    point = parameters(scenario)
    assert point["pv_scale"] == scenario.params.pv_scale
    assert point["overlay.t_start_s"] == scenario.training_run.t_start_s
    assert 0.4 < point[f"{scenario.sites[0].name}.ramp[0].fraction"] <= 0.85
