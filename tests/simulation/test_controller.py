"""Controllers of one's own: what they see, how they act, on both engines, and what is refused."""

import numpy as np
import pytest

from scenario_lib.errors import ControllerError, InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.simulation.assets import Assets, load_assets
from scenario_lib.simulation.compiled.circuit import AGREEMENT_PU
from scenario_lib.simulation.compiled.rollout import compile_scenario
from scenario_lib.simulation.controller import CONTROLLERS, Deadband, Now, as_controller, load_controller
from scenario_lib.simulation.engines import Engine, run_policy, simulator
from scenario_lib.simulation.rollout import Rollout, run_reference

SECONDS = 40
Parts = tuple[Scenario, Experiment, Assets]


@pytest.fixture(scope="module", params=["ieee13", "ieee123"])
def parts(request: pytest.FixtureRequest) -> Parts:
    experiment = load_experiment(request.param)
    return randomize_scenario(2007, experiment=experiment), experiment, load_assets(experiment)


def compiled_rollout(parts: Parts, controller: object) -> Rollout:
    compiled = compile_scenario(*parts, SECONDS)
    return run_policy(compiled, as_controller("controller", controller))


class Alternating:
    """Every ten seconds all models to the other end of their sizes; notes what it saw."""

    def __init__(self) -> None:
        self.seen: list[Now] = []
        self.resets: list[int] = []

    def reset(self, scenario: Scenario) -> None:
        self.resets.append(scenario.seed)

    def __call__(self, now: Now) -> dict[str, int] | None:
        self.seen.append(now)
        if now.second % 10:
            return None
        place = 0 if now.second % 20 else -1
        return {name: sizes[place] for name, sizes in now.feasible_batch_sizes.items()}


def test_both_engines_show_and_do_the_same(parts: Parts) -> None:
    ours, theirs = Alternating(), Alternating()
    compiled = compiled_rollout(parts, ours)
    reference = run_reference(*parts, theirs, SECONDS)
    assert compiled.policy == reference.policy == "Alternating"
    assert np.array_equal(compiled.batch_sizes, reference.batch_sizes)
    assert np.array_equal(compiled.power_w, reference.power_w)
    assert np.abs(compiled.voltages_pu - reference.voltages_pu).max() < AGREEMENT_PU
    assert ours.resets == theirs.resets == [2007]
    for mine, yours in zip(ours.seen, theirs.seen, strict=True):
        assert (mine.second, mine.bus_phases, mine.limits_pu) == (yours.second, yours.bus_phases, yours.limits_pu)
        assert (mine.batch_sizes, mine.replicas) == (yours.batch_sizes, yours.replicas)
        assert mine.latency_s == pytest.approx(yours.latency_s, abs=0, nan_ok=True)
        assert all(np.array_equal(mine.power_w[site], yours.power_w[site]) for site in yours.power_w)
        assert np.array_equal(mine.pv_kw, yours.pv_kw)
        assert np.array_equal(mine.load_kw, yours.load_kw)


def test_what_is_seen_is_that_second_and_acts_in_the_next(parts: Parts) -> None:
    scenario, experiment, _ = parts
    controller = Alternating()
    rollout = compiled_rollout(parts, controller)
    initial = rollout.batch_sizes[0].tolist()
    largest, smallest = (
        [ends[place] for ends in controller.seen[0].feasible_batch_sizes.values()] for place in (-1, 0)
    )
    assert initial == [model.initial_batch_size for site in scenario.sites for model in site.models]
    assert rollout.batch_sizes[1].tolist() == rollout.batch_sizes[10].tolist() == largest
    assert rollout.batch_sizes[11].tolist() == smallest
    now = controller.seen[7]
    assert np.array_equal(now.voltages_pu, rollout.voltages_pu[7])
    assert now.pv_kw.tolist() == [pv.kw_per_phase(np.array([7.0]))[0] for pv in scenario.pv_systems]
    assert [figures.tolist() for figures in now.power_w.values()] == rollout.power_w[7].tolist()
    assert set(now.zones) == set(experiment.feeder.zones)
    for zone, places in now.zones.items():
        inside = {bus.lower() for bus in experiment.feeder.zones[zone]}
        assert len(places)
        assert {now.bus_phases[place][0].lower() for place in places} <= inside
    with pytest.raises(ValueError, match="read-only"):
        now.voltages_pu[0] = 1.0


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"Llama": 64}, r"returned model 'Llama' at second 3; expected one of Llama"),
        ({"Llama-3.1-8B": 63}, r"returned batch size 63 for Llama-3.1-8B at second 3; expected one of 8, 16"),
        ({"Llama-3.1-8B": True}, "batch size True"),
        ({"Llama-3.1-8B": "64"}, "batch size '64'"),
        (64, "returned 64 at second 3; expected batch sizes by model, or None"),
    ],
)
def test_odd_decisions_are_refused_by_name(returned: object, message: str) -> None:
    experiment = load_experiment("ieee13")
    parts = randomize_scenario(7, experiment=experiment), experiment, load_assets(experiment)

    def mine(now: Now) -> object:
        return returned if now.second == 3 else None

    for run in (lambda: compiled_rollout(parts, mine), lambda: run_reference(*parts, mine, SECONDS)):
        with pytest.raises(ControllerError, match=message) as caught:
            run()
        assert str(caught.value).startswith("controller mine ")


def test_an_error_of_the_controller_says_when() -> None:
    experiment = load_experiment("ieee13")
    parts = randomize_scenario(7, experiment=experiment), experiment, load_assets(experiment)

    def mine(now: Now) -> None:
        raise KeyError(now.second)

    with pytest.raises(ControllerError, match="controller mine raised KeyError at second 0: 0"):
        compiled_rollout(parts, mine)


def test_shipped_controllers_are_floor_ceiling_and_a_good_rule() -> None:
    experiment = load_experiment("ieee13")
    scenario = randomize_scenario(2007, experiment=experiment)
    prepared = simulator(scenario, experiment, load_assets(experiment), Engine())
    names = ("none", "ofo", "rule-based", *CONTROLLERS)
    runs = {name: prepared.run(name) for name in names}
    assert {name: run.rollout.policy for name, run in runs.items()} == {name: name for name in names}
    assert set(runs["always-smallest"].rollout.batch_sizes[1:].ravel()) == {8}
    assert (runs["always-largest"].rollout.batch_sizes[1:] == 512).all()
    integral = {name: run.measures.integral_pu_s for name, run in runs.items()}
    assert integral["always-smallest"] < integral["deadband"] < integral["ofo"] < integral["rule-based"]
    assert integral["rule-based"] < integral["none"] < integral["always-largest"]
    tokens = {name: run.rollout.batch_sizes.mean() for name, run in runs.items()}
    assert tokens["deadband"] > 5 * tokens["ofo"]


def test_a_rule_forgets_between_rollouts() -> None:
    experiment = load_experiment("ieee13")
    parts = randomize_scenario(2007, experiment=experiment), experiment, load_assets(experiment)
    rule = Deadband()
    first, second = compiled_rollout(parts, rule), compiled_rollout(parts, rule)
    assert np.array_equal(first.batch_sizes, second.batch_sizes)


def test_references_are_found_or_refused() -> None:
    policy = load_controller("scenario_lib.simulation.controller:Deadband")
    assert isinstance(policy.controller, Deadband)
    assert policy.name == "scenario_lib.simulation.controller:Deadband"
    with pytest.raises(UnknownNameError, match="no_such_module:rule.*give it as package.module:name"):
        load_controller("no_such_module:rule")
    with pytest.raises(UnknownNameError, match="module scenario_lib.simulation.controller has no 'rule'"):
        load_controller("scenario_lib.simulation.controller:rule")
    with pytest.raises(InvalidSettingError, match="expected a function of `Now`"):
        as_controller("controllers", 7)
