"""Training: a short run, its files, its resumption, and what is refused. Needs the extra `train`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scenario_lib.env.making import make_batch_size_env
from scenario_lib.errors import InvalidSettingError, PolicyError, TrainingError
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.learning.settings import TrainingSettings, parse_settings
from scenario_lib.learning.training import TrainingProgress, TrainingRun, train
from scenario_lib.learning.worlds import SeededOnce, World, closing_workers, make_vector_env

pytest.importorskip("stable_baselines3", reason="needs the extra: pip install 'scenario-lib[train]'")

SHORT = {
    "steps": 64,
    "envs": 1,
    "checkpoint_steps": 32,
    "environment": {"truncate_episode": False},
    "ppo": {"n_steps": 32, "batch_size": 16, "n_epochs": 1, "hidden_sizes": [8]},
}


def settings(**changes: object) -> TrainingSettings:
    return replace(parse_settings(SHORT, "test"), **changes)  # type: ignore[arg-type]


def one_env_here(world: World, seed: int) -> object:
    """One environment with episodes of 19 steps in this process: workers take seconds to start."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    chosen = {"reward": world.settings.reward, "truncate_episode": False, "total_duration_s": 20}
    return DummyVecEnv([lambda: SeededOnce(make_batch_size_env(world.library, world.specs_dir, **chosen), seed)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, library_path: Path, specs_dir: Path) -> Iterator[TrainingRun]:
    import scenario_lib.learning.ppo as ppo

    run = TrainingRun(library_path, tmp_path_factory.mktemp("runs") / "short", settings(), specs_dir)
    shown: list[TrainingProgress] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppo, "make_vector_env", one_env_here)
        result = train(run, shown.append)
        assert (result.steps, result.episodes, result.policy) == (64, 3, run.out / "policy")
        assert [progress.steps for progress in shown] == [32, 64]
        yield run


def test_a_run_leaves_checkpoints_and_a_policy_that_acts(finished: TrainingRun) -> None:
    names = sorted(path.name for path in (finished.out / "checkpoints").iterdir())
    assert names == ["step-000000000032", "step-000000000064"]
    assert sorted(path.name for path in finished.out.iterdir() if path.name != "tensorboard") == [
        "checkpoints",
        "episodes.parquet",
        "policy",
    ]
    policy = TrainedPolicy.load(finished.out)
    assert (policy.name, policy.card.steps, policy.card.settings) == ("short", 64, finished.settings)
    assert [record.seed for record in policy.card.library.records] == [7, 2007, 6007]
    statistics = policy.normalization.observations
    assert statistics is not None
    assert statistics.count == pytest.approx(64 + 1 + 1e-4)  # each step, the first reset, and the start value
    assert set(policy.act(np.zeros(policy.actor.n_inputs, np.float32)).tolist()) <= {0, 1, 2}


def test_resuming_goes_on_counting_and_refuses_what_differs(finished: TrainingRun) -> None:
    again = replace(finished, resume=True)
    with pytest.raises(TrainingError, match="has 64 steps already, 64 were asked for"):
        train(again)
    with pytest.raises(TrainingError, match=r"ppo\.gamma: found 0\.5, expected 0\.99"):
        train(replace(again, settings=settings(steps=96, ppo=replace(finished.settings.ppo, gamma=0.5))))
    with pytest.raises(TrainingError, match="is not empty"):
        train(replace(finished, settings=settings(steps=96)))
    result = train(replace(again, settings=settings(steps=96)))
    assert result.steps == 96
    resumed = TrainedPolicy.load(finished.out).normalization.observations
    assert resumed is not None
    assert resumed.count == pytest.approx(96 + 2 + 1e-4)


def test_a_changed_model_file_is_not_loaded(finished: TrainingRun, tmp_path: Path) -> None:
    import shutil

    out = tmp_path / "copy"
    shutil.copytree(finished.out, out)
    newest = max((out / "checkpoints").iterdir())
    (newest / "model.zip").write_bytes(b"something else")
    with pytest.raises(PolicyError, match=r"model\.zip: is not the file that was written"):
        train(replace(finished, out=out, resume=True, settings=settings(steps=128)))


def test_a_mode_that_does_not_exist_is_refused_before_workers_start(finished: TrainingRun, tmp_path: Path) -> None:
    wrong = parse_settings({**SHORT, "environment": {"observation": "everything"}}, "test")
    with pytest.raises(InvalidSettingError, match="observation is 'everything'"):
        train(replace(finished, out=tmp_path / "new", settings=wrong))


def test_episodes_become_rows(finished: TrainingRun) -> None:
    rows = pq.read_table(finished.out / "episodes.parquet").to_pylist()
    assert [row["total_steps"] for row in rows][:3] == [19, 38, 57]
    for row in rows:
        parts = sum(row[name] for name in ("voltage", "throughput", "latency", "switch", "safe"))
        assert row["episode_return"] == pytest.approx(parts, rel=1e-5)
        assert row["steps"] == 19
        assert row["scenario_seed"] in (7, 2007, 6007)


def test_workers_play_different_scenarios(library_path: Path, specs_dir: Path, tmp_path: Path) -> None:
    """The real thing: a process for each environment."""
    two = settings(envs=2, steps=32, ppo=replace(settings().ppo, n_steps=16))
    result = train(TrainingRun(library_path, tmp_path / "run", two, specs_dir))
    assert (result.steps, TrainedPolicy.load(tmp_path / "run").card.steps) == (32, 32)
    environments = make_vector_env(World(library_path, specs_dir, None, two), seed=0)
    environments.reset()
    played = [info["scenario"] for info in environments.reset_infos]
    environments.close()
    assert len(set(played)) == 2


def test_actor_and_statistics_are_those_of_stable_baselines3() -> None:
    import gymnasium as gym
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from scenario_lib.learning.ppo import actor_of, normalization_of

    class Noise(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)

        def __init__(self, action_space: gym.Space) -> None:
            self.action_space = action_space
            self.rng = np.random.default_rng(0)

        def reset(self, *, seed=None, options=None):
            return self.rng.normal(3, 2, 6).astype(np.float32), {}

        def step(self, action):
            return self.rng.normal(3, 2, 6).astype(np.float32), float(self.rng.normal()), False, False, {}

    for space in (gym.spaces.MultiDiscrete([3, 3]), gym.spaces.Discrete(13)):
        environments = VecNormalize(DummyVecEnv([lambda space=space: Noise(space)]), clip_obs=1.5)
        model = PPO("MlpPolicy", environments, n_steps=32, batch_size=32, seed=1)
        model.learn(32)
        actor, normalization = actor_of(model, "tanh"), normalization_of(environments)
        seen = np.random.default_rng(1).normal(3, 4, (200, 6)).astype(np.float32)
        normalized = environments.normalize_obs(seen)
        for observation, expected in zip(seen, normalized, strict=True):
            ours = normalization.observed(observation)
            assert ours == pytest.approx(expected, abs=1e-6)
            action, _ = model.predict(expected, deterministic=True)
            assert np.array_equal(actor.act(ours), action)


def test_after_an_error_workers_are_ended_and_not_asked_to_close() -> None:
    """Closing would wait for an answer of a worker that has none to give."""
    told: list[str] = []

    class Process:
        def terminate(self) -> None:
            told.append("terminate")

    class Environments:
        processes = (Process(), Process())

        @property
        def unwrapped(self) -> "Environments":
            return self

        def close(self) -> None:
            told.append("close")

    with closing_workers(Environments()):
        pass
    assert told == ["close"]
    told.clear()
    with pytest.raises(EOFError), closing_workers(Environments()):
        raise EOFError
    assert told == ["terminate", "terminate"]
