"""Environments from a few words, and what is refused."""

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from env_samples import DATA, LIBRARY, SHARED, SINGLE, make, make_vec

from scenario_lib.env.batch_size_env import BatchSizeEnv, SharedBatchSizeEnv
from scenario_lib.env.factories import make_batch_size_env, observation_config
from scenario_lib.env.reward import RewardConfig
from scenario_lib.env.simulator import make_sim_fn
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.views import LibraryView, RecordFilter
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import ENGINES

STILL = np.ones(5, int)
SHORT = {"truncate_episode": False, "total_duration_s": 6}


@pytest.fixture(scope="module")
def zones_library(tmp_path_factory):
    """A small library on ieee123, which has zones."""
    experiment = load_experiment("ieee123")
    criteria = ScreeningCriteria(
        min_baseline_integral=0.0, min_baseline_integral_over=0.0, min_recovery_frac=-1e9, max_recovery_frac=1e9
    )
    settings = RandomizationSettings(randomize_ramps=experiment.randomize_ramps_default)
    plan = MeasurePlan(experiment, settings, criteria)
    out = tmp_path_factory.mktemp("zones") / "library"
    return build_library(plan, CandidateRequest(candidates=2), BuildOptions(out)).path


@pytest.mark.parametrize(("mode", "slots"), [("full-voltage", 32), ("per-bus-summary", 26), ("system-summary-only", 0)])
def test_observation_modes(mode, slots):
    env = make(observation=mode)
    observation, info = env.reset(seed=0)
    assert len(info["batch_sizes"]) == 5
    assert env.observation_space.shape == observation.shape == (slots + 3 + 5 * 5,)
    assert observation.dtype == np.float32


def test_weights_by_name_or_as_a_configuration():
    by_name, given = make(reward={"w_switch": 7.0}), make(reward=RewardConfig(w_switch=7.0))
    for env in (by_name, given):
        env.reset(options={"scenario": 7})
    left, right = by_name.step([0] * 5), given.step([0] * 5)
    assert left[1] == right[1]
    assert left[4]["reward_components"]["switch"] == -7.0 * 5


def test_views_of_a_library_are_played():
    view = LibraryView(ScenarioLibrary(LIBRARY), RecordFilter(seeds=[2007]))
    env = make(library=view)
    assert {env.reset(seed=seed)[1]["scenario"] for seed in range(5)} == {2007}


def test_zones_are_for_feeders_that_have_them(zones_library):
    with pytest.raises(InvalidSettingError, match="'per-zone-summary': feeder ieee13 has no zones"):
        make(observation="per-zone-summary")
    shared = gym.make(SHARED, library=zones_library, observation="per-zone-summary", **SHORT)
    observation, _ = shared.reset(seed=0)
    zones = load_experiment("ieee123").feeder.zones
    assert shared.unwrapped.observation_labels[0] == f"worst undervoltage (pu), zone {next(iter(zones))}"
    summaries = observation[: 3 * len(zones)].reshape(-1, 3)
    assert summaries.shape == (len(zones), 3)
    whole = gym.make(SHARED, library=zones_library, observation="system-summary-only", **SHORT)
    total = whole.reset(seed=0)[0][:3]
    assert summaries[:, :2].max(axis=0) == pytest.approx(total[:2])


def test_an_agent_of_a_zone_sees_that_zone(zones_library):
    experiment = load_experiment("ieee123")
    site = experiment.sites[1].name
    env = gym.make(SINGLE, library=zones_library, site=site, **SHORT)
    _, info = env.reset(seed=0)
    buses = {label.split()[3].rstrip(",") for label in env.unwrapped.observation_labels if label.startswith("voltage")}
    assert buses <= set(experiment.feeder.zones[site])
    assert list(info["batch_sizes"]) == [model.label for model in experiment.sites[1].models]


def test_all_sites_in_lockstep_with_zones(zones_library):
    given = {"library": zones_library, "specs_dir": None, "observation": "per-zone-summary", **SHORT}
    ours = make_vec(2, SHARED, **given)
    alone = gym.make(SHARED, **{**given, "worker": (1, 2)})
    assert ours.reset(seed=2)[0][1].tobytes() == alone.reset(seed=2)[0].tobytes()
    action = ours.action_space.sample()
    assert ours.step(action)[0][1].tobytes() == alone.step(action[1])[0].tobytes()


@pytest.mark.filterwarnings("ignore:.*infinity.*")
def test_the_checker_is_content_with_zones(zones_library):
    from gymnasium.utils.env_checker import check_env

    for name in (SINGLE, SHARED):
        env = gym.make(name, library=zones_library, observation="per-zone-summary")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"observation": "all"}, InvalidSettingError, "observation is 'all'; expected one of full-voltage"),
        ({"action": "all"}, InvalidSettingError, "action_mode is 'all'"),
        ({"engine": "fast"}, InvalidSettingError, "engine is 'fast'; expected one of compiled, reference"),
        ({"site": "moon"}, UnknownNameError, "site is 'moon'; expected one of default"),
        ({"reward": {"switch_mode": "x"}}, InvalidSettingError, "switch_mode is 'x'"),
        ({"coverage": "x"}, InvalidSettingError, "coverage is 'x'"),
        ({"dt_ctrl": Fraction(-1)}, InvalidSettingError, "dt_ctrl is -1 s; expected more than 0 s"),
    ],
)
def test_unknown_words_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        make(**settings)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_shows_at_reset_only(engine):
    half = make(dt_ctrl=Fraction(1, 2), engine=engine, **SHORT)
    with pytest.raises(
        InvalidSettingError, match="dt_ctrl is 0.5 s; expected a whole multiple of the simulation's tick"
    ):
        half.reset(seed=0)
    none = make(truncate_episode=False, total_duration_s=1, engine=engine)
    with pytest.raises(InvalidSettingError, match="the episode window 0 to 1 s has no step of 1 s"):
        none.reset(seed=0)
    with pytest.raises(UnknownNameError, match="no record of seed 99"):
        none.reset(options={"scenario": 99})


@pytest.mark.parametrize("engine", ENGINES)
def test_out_of_turn(engine):
    env = make(engine=engine, **SHORT).unwrapped
    with pytest.raises(EnvironmentUseError, match="step was called before reset"):
        env.step(STILL)
    env.reset(seed=0)
    with pytest.raises(InvalidSettingError, match=r"action has shape \(4,\); expected \(5,\)"):
        env.step(np.ones(4, int))
    for _ in range(5):
        *_, truncated, _ = env.step(STILL)
    assert truncated
    with pytest.raises(EnvironmentUseError, match="after the end of the episode"):
        env.step(STILL)
    env.close()
    env.close()
    with pytest.raises(EnvironmentUseError, match="before reset"):
        env.step(STILL)


def ieee13(engine):
    experiment = load_experiment("ieee13")
    assets = load_assets(experiment, DATA / "specs")
    site = experiment.sites[0]
    config = observation_config(experiment, (("x", 1),), "system-summary-only", experiment.sites)
    return make_sim_fn(experiment, assets, 6, engine), config, site


@pytest.mark.parametrize("engine", ENGINES)
def test_sites_and_models_that_do_not_exist(engine):
    make_sim, config, site = ieee13(engine)
    with pytest.raises(UnknownNameError, match="agent_site_id is 'moon'; expected one of"):
        BatchSizeEnv(make_sim, config, "moon", total_duration_s=6).reset()
    labels = tuple(model.label for model in site.models)
    with pytest.raises(UnknownNameError, match="site_model_mapping names .'moon'."):
        SharedBatchSizeEnv(make_sim, config, {"moon": labels}, total_duration_s=6).reset()
    other = replace(
        config,
        model_labels=(*labels, "ghost"),
        feasible_batch_sizes={**config.feasible_batch_sizes, "ghost": (8, 16)},
        itl_deadlines={**config.itl_deadlines, "ghost": 0.1},
    )
    with pytest.raises(UnknownNameError, match="model_labels: 'ghost' is not at"):
        BatchSizeEnv(make_sim, other, total_duration_s=6).reset()


def test_mappings_that_cannot_be():
    make_sim, config, site = ieee13("compiled")
    labels = tuple(model.label for model in site.models)
    with pytest.raises(InvalidSettingError, match="a label stands at two sites"):
        SharedBatchSizeEnv(make_sim, config, {"a": labels, "b": labels[:1]})
    with pytest.raises(InvalidSettingError, match="do not name the same models"):
        SharedBatchSizeEnv(make_sim, config, {"a": labels[1:]})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_library_of_another_feeder_is_refused(engine):
    experiment = load_experiment("ieee34")
    assets = load_assets(experiment, DATA / "specs")
    config = observation_config(experiment, (("x", 1),), "system-summary-only", experiment.sites[:1])
    library = ScenarioLibrary(LIBRARY)
    env = BatchSizeEnv(make_sim_fn(experiment, assets, engine=engine), config, scenario_library=library)
    with pytest.raises(InvalidSettingError, match="is the library one of another feeder"):
        env.reset(seed=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_library_there_is_no_scenario_to_name(engine):
    make_sim, config, _ = ieee13(engine)
    env = BatchSizeEnv(make_sim, config, total_duration_s=6)
    with pytest.raises(InvalidSettingError, match="expected none, without a library"):
        env.reset(options={"scenario": 7})
    assert env.reset()[1]["scenario"] is None


@pytest.mark.parametrize("engine", ENGINES)
def test_another_grid_is_refused(engine):
    make_sim, config, _ = ieee13(engine)
    env = BatchSizeEnv(make_sim, replace(config, n_bus_phases=3), total_duration_s=6)
    with pytest.raises(InvalidSettingError, match="n_bus_phases is 3; the grid has"):
        env.reset()


def test_a_compiled_simulation_can_be_stepped_by_hand():
    """The stepper gives what environments play in machine code; an environment takes either."""
    make_sim, config, _ = ieee13("compiled")
    by_hand = BatchSizeEnv(lambda scenario_override=None: make_sim(scenario_override), config, total_duration_s=6)
    played = BatchSizeEnv(make_sim, config, total_duration_s=6)
    assert by_hand.reset()[0].tobytes() == played.reset()[0].tobytes()
    for action in np.random.default_rng(0).integers(0, 3, (5, 5)):
        left, right = by_hand.step(action), played.step(action)
        assert left[0].tobytes() == right[0].tobytes()
        assert left[1] == pytest.approx(right[1], rel=1e-12)
        assert left[4]["batch_sizes"] == right[4]["batch_sizes"]
    assert base_scenario(load_experiment("ieee13")).sites[0].name in by_hand._backend._sim.sites


def test_opened_and_named_libraries_are_the_same():
    paths = [str(LIBRARY), LIBRARY, ScenarioLibrary(LIBRARY)]
    envs = [make_batch_size_env(path, DATA / "specs") for path in paths]
    assert len({env.reset(seed=1)[0].tobytes() for env in envs}) == 1


@pytest.mark.parametrize("given", [{"reward": {"w_swich": 1}}, {"reward_config": {"w_swich": 1}}])
@pytest.mark.parametrize("maker", [make, partial(make_vec, 2)])
def test_misspelt_weights_are_refused_at_once(maker, given):
    with pytest.raises(UnknownNameError, match="reward has no 'w_swich'.*did you mean 'w_switch'"):
        maker(**given)


@pytest.mark.parametrize("maker", [make, partial(make_vec, 2)])
def test_weights_are_coerced_or_refused_at_once(maker):
    for given in ({"reward": 7}, {"reward_config": [1]}, {"reward": "w_switch"}):
        with pytest.raises(InvalidSettingError, match="reward is .*; expected a RewardConfig, or a mapping"):
            maker(**given)
    with pytest.raises(InvalidSettingError, match="two names for one thing"):
        maker(reward={}, reward_config={})
    env = maker(reward_config={"w_switch": 7.0}, **SHORT)
    env.reset(seed=0)
    components = env.step(np.zeros(env.action_space.shape, int))[4]["reward_components"]
    assert np.allclose(components["switch"], -35.0)


@pytest.mark.parametrize("reward", [{"w_switch": 7.0}, RewardConfig(w_switch=7.0)])
@pytest.mark.parametrize("num_envs", [None, 2])
def test_a_spec_is_json_and_makes_an_equal_environment(num_envs, reward):
    given = {"reward": reward, "dt_ctrl": Fraction(2), **SHORT}
    env = make(**given) if num_envs is None else make_vec(num_envs, **given)
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gym.make(spec) if num_envs is None else gym.make_vec(spec)
    assert again.spec == env.spec
    assert again.reset(seed=1)[0].tobytes() == env.reset(seed=1)[0].tobytes()


def test_the_id_with_its_module_needs_no_import():
    program = (
        "import gymnasium, sys\n"
        "gymnasium.make('scenario_lib:scenario_lib/BatchSize-v0', library=sys.argv[1], specs_dir=sys.argv[2]).reset()"
    )
    command = [sys.executable, "-c", program, str(LIBRARY), str(DATA / "specs")]
    assert subprocess.run(command, timeout=120, check=False).returncode == 0
