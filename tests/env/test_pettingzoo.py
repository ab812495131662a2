"""One agent per site: PettingZoo's own tests, and each agent sees and is paid what its site's environment shows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_samples import LIBRARY, make
from library_samples import write_sample

from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings

pytest.importorskip("pettingzoo", reason="needs the extra: pip install 'scenario-lib[pettingzoo]'")

from pettingzoo.test import parallel_api_test, parallel_seed_test

from scenario_lib.env.pettingzoo import ParallelBatchSizeEnv, parallel_env

SHORT: dict[str, Any] = {"truncate_episode": False, "total_duration_s": 12}
SPECS = Path(__file__).parents[1] / "data" / "specs"


@pytest.fixture(scope="module")
def two_sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of a feeder with two sites."""
    recipe = Recipe(load_experiment("ieee34"), RandomizationSettings())
    return write_sample(tmp_path_factory.mktemp("two") / "library", [(recipe, [7, 1007])])


def make_parallel(library: Path, **settings: Any) -> ParallelBatchSizeEnv:
    return parallel_env(library, **{**SHORT, **settings})


@pytest.mark.parametrize("action", ["delta", "coupled", "absolute"])
def test_pettingzoos_own_test_of_the_interface(two_sites: Path, action: str) -> None:
    with pytest.warns(UserWarning, match="reset has no options 'options'"):
        parallel_api_test(make_parallel(two_sites, action=action), num_cycles=40)


def test_pettingzoos_own_test_of_seeds(two_sites: Path) -> None:
    parallel_seed_test(lambda: make_parallel(two_sites), num_cycles=30)


@pytest.mark.parametrize("observation", ["full-voltage", "system-summary-only"])
@pytest.mark.parametrize("reward", [{}, {"switch_mode": "cooldown", "w_switch": 3.0, "w_safe": 0.5}])
def test_an_agent_alone_at_work_sees_and_is_paid_what_its_sites_environment_shows(
    two_sites: Path, observation: str, reward: dict[str, Any]
) -> None:
    together = make_parallel(two_sites, observation=observation, reward=reward)
    for name in together.possible_agents:
        alone = make(library=two_sites, specs_dir=None, site=name, observation=observation, reward=reward, **SHORT)
        assert alone.observation_space == together.observation_space(name)
        assert alone.action_space == together.action_space(name)
        seen, info = alone.reset(seed=3)
        all_seen, infos = together.reset(seed=3)
        assert seen.tobytes() == all_seen[name].tobytes()
        assert info["reward_components"] == {**infos[name]["reward_components"]}
        rng = np.random.default_rng(0)
        for _ in range(8):
            actions = {other: np.ones(together.action_space(other).shape, int) for other in together.agents}
            actions[name] = rng.integers(0, 3, alone.action_space.shape)
            seen, paid, _, truncated, info = alone.step(actions[name])
            all_seen, all_paid, _, all_truncated, infos = together.step(actions)
            assert seen.tobytes() == all_seen[name].tobytes()
            assert paid == pytest.approx(all_paid[name], rel=1e-12, abs=1e-12)
            assert info["reward_components"] == pytest.approx(infos[name]["reward_components"], rel=1e-12, abs=1e-12)
            assert info["time_s"] == infos[name]["time_s"]
            assert truncated == all_truncated[name]
        assert len(together.observation_labels(name)) == len(seen)
        assert together.state().shape == together.state_space.shape


def test_what_an_agent_cannot_do_is_refused(two_sites: Path) -> None:
    env = make_parallel(two_sites)
    with pytest.raises(EnvironmentUseError, match="no episode is under way"):
        env.step({})
    env.reset(seed=0)
    hold = {name: np.ones(env.action_space(name).shape, int) for name in env.agents}
    with pytest.raises(UnknownNameError, match="actions are of agents"):
        env.step({env.agents[0]: hold[env.agents[0]]})
    with pytest.raises(InvalidSettingError, match="expected whole numbers from 0 to 2"):
        env.step({**hold, env.agents[0]: hold[env.agents[0]] + 5})
    while env.agents:
        env.step(hold)
    with pytest.raises(EnvironmentUseError, match="no episode is under way"):
        env.step(hold)
    env.close()


@pytest.mark.parametrize(
    "settings",
    [{"observation": ["voltages"]}, {"reward": lambda step: 0.0}, {"ofo_baseline": True}],
    ids=["blocks", "function", "ofo"],
)
def test_what_is_for_the_whole_feeder_alone_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettingError, match="SharedBatchSize-v0"):
        parallel_env(LIBRARY, SPECS, **settings)
