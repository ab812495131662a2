"""Training: a short run, its files, its resumption, and what is refused. Needs the extra `train`."""

import json
import pickle
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from library_samples import write_sample

from scenario_lib._files import file_digest
from scenario_lib.env.factories import make_batch_size_vector_env
from scenario_lib.errors import DataFileError, InvalidSettingError, PolicyError, TrainingError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.learning.environments import TrainingEnvironments, make_vector_env
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.learning.run_folder import TrainingProgress
from scenario_lib.learning.settings import TrainingSettings, parse_settings
from scenario_lib.learning.training import TrainingRun, train
from scenario_lib.library.recipe import DataDigests, Recipe
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.scenario.settings import RandomizationSettings

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


def short_episodes(world: TrainingEnvironments, seed: int) -> object:
    """Environments whose episodes have 19 steps."""
    from scenario_lib.env.sb3 import BatchSizeVecEnv

    length = {"truncate_episode": False, "total_duration_s": 20, "autoreset_mode": "SameStep", "prefetch": True}
    chosen = {"reward": world.settings.reward, "coverage": world.settings.environment.coverage}
    made = make_batch_size_vector_env(world.settings.envs, world.library, world.specs_dir, **chosen, **length)
    return BatchSizeVecEnv(made, seed)


@pytest.fixture
def shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    import scenario_lib.learning.ppo as ppo

    monkeypatch.setattr(ppo, "make_vector_env", short_episodes)


def learned(out: Path) -> tuple[bytes, bytes, list[dict[str, object]]]:
    """What a run learned: weights, statistics, and its episodes but for how long they took."""
    rows = pq.read_table(out / "episodes.parquet").drop_columns("wall_s").to_pylist()
    return (out / "policy" / "actor.json").read_bytes(), (out / "policy" / "normalize.json").read_bytes(), rows


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, library_path: Path, specs_dir: Path) -> Iterator[TrainingRun]:
    import scenario_lib.learning.ppo as ppo

    run = TrainingRun(library_path, tmp_path_factory.mktemp("runs") / "short", settings(), specs_dir)
    shown: list[TrainingProgress] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppo, "make_vector_env", short_episodes)
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
    out = tmp_path / "copy"
    shutil.copytree(finished.out, out)
    newest = max((out / "checkpoints").iterdir())
    (newest / "model.zip").write_bytes(b"something else")
    with pytest.raises(PolicyError, match=r"model\.zip: is not the file that was written"):
        train(replace(finished, out=out, resume=True, settings=settings(steps=128)))


def _pickled(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", pickle.dumps({"weights": print}))


def _without_weights(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")


FOREIGN = {
    "no archive": lambda path: path.write_bytes(b"something else"),
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:2000]),
    "a pickle": _pickled,
    "no weights": _without_weights,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_model_file_is_refused_in_our_words(finished: TrainingRun, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "copy"
    shutil.copytree(finished.out, out)
    newest = max((out / "checkpoints").iterdir())
    FOREIGN[kind](newest / "model.zip")
    card = json.loads((newest / "policy.json").read_text())
    card["digests"]["model.zip"] = file_digest(newest / "model.zip")
    (newest / "policy.json").write_text(json.dumps(card))
    with pytest.raises(PolicyError, match=r"model\.zip: does not hold finite weights.*restore it") as caught:
        train(replace(finished, out=out, resume=True, settings=settings(steps=128)))
    assert "weights_only" not in str(caught.value)


def test_a_model_file_that_unpacks_to_gigabytes_is_refused(finished: TrainingRun, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(finished.out, out)
    newest = max((out / "checkpoints").iterdir())
    with zipfile.ZipFile(newest / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.pth", bytes(100_000_000))
    assert (newest / "model.zip").stat().st_size < 200_000
    card = json.loads((newest / "policy.json").read_text())
    card["digests"]["model.zip"] = file_digest(newest / "model.zip")
    (newest / "policy.json").write_text(json.dumps(card))
    with pytest.raises(PolicyError, match=r"model\.zip: unpacks to 100 MB; expected at most 2\d MB of a"):
        train(replace(finished, out=out, resume=True, settings=settings(steps=128)))


@pytest.mark.parametrize("out", ["new", "deep/er"])
def test_a_library_of_two_feeders_is_refused_by_that_cause(tmp_path: Path, out: str) -> None:
    trace = training_trace_recipe()
    data = DataDigests("circuit", "models of other data", trace.digest, trace.params)
    pairs = [
        (Recipe(load_experiment(name), RandomizationSettings(), data), [seed])
        for name, seed in (("ieee13", 7), ("ieee34", 1007))
    ]
    path = write_sample(tmp_path / "both", pairs)
    with pytest.raises(InvalidSettingError, match=r"both: has records of several feeders \(ieee13, ieee34\).*export"):
        train(TrainingRun(path, tmp_path / out, settings()))
    with pytest.raises(InvalidSettingError, match=r"both: has records of several feeders"):
        make_batch_size_vector_env(1, path)
    assert [place.name for place in tmp_path.iterdir()] == ["both"]


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


@pytest.mark.usefixtures("shortened")
def test_the_same_seed_learns_the_same_and_so_does_its_resumption(
    library_path: Path, specs_dir: Path, tmp_path: Path
) -> None:
    four = settings(envs=4, steps=256, checkpoint_steps=128)
    runs = [TrainingRun(library_path, tmp_path / name, four, specs_dir) for name in ("first", "second", "other")]
    runs[2] = replace(runs[2], settings=replace(four, seed=1))
    for run in runs:
        train(run)
    first, second, other = (learned(run.out) for run in runs)
    assert first == second
    assert first[0] != other[0]
    assert len(first[2]) == 12
    for run in runs[:2]:
        train(replace(run, resume=True, settings=replace(four, steps=384)))
    resumed = [learned(run.out) for run in runs[:2]]
    assert resumed[0] == resumed[1]
    assert resumed[0][0] != first[0]
    assert resumed[0][2][:12] == first[2]


def test_environments_play_different_scenarios_in_this_process(library_path: Path, specs_dir: Path) -> None:
    three = settings(envs=3, ppo=replace(settings().ppo, n_steps=16))
    environments = make_vector_env(TrainingEnvironments(library_path, specs_dir, None, three), seed=0)
    environments.reset()
    assert sorted(info["scenario"] for info in environments.reset_infos) == [7, 2007, 6007]
    environments.close()


def test_one_environment_plays_on_the_reference_engine(library_path: Path, specs_dir: Path) -> None:
    tables = {**SHORT, "environment": {"truncate_episode": False, "engine": "reference"}}
    played = []
    for chosen in (tables, SHORT):
        environments = make_vector_env(
            TrainingEnvironments(library_path, specs_dir, None, parse_settings(chosen, "test")), seed=3
        )
        observations = [environments.reset()]
        for _ in range(3):
            observation, _, _, infos = environments.step(np.full((1, 5), 2))
            observations.append(observation)
        played.append((np.array(observations), infos[0]["scenario"], infos[0]["batch_sizes"]))
        environments.close()
    (slow, *told), (quick, *told_quick) = played
    assert np.abs(slow - quick).max() < 1e-6
    assert told == told_quick
    with pytest.raises(DataFileError, match="envs is 2; expected 1 on the reference engine"):
        parse_settings({**tables, "envs": 2}, "test")


@pytest.mark.usefixtures("shortened")
def test_tensorboard_is_fed_where_it_is_installed(library_path: Path, specs_dir: Path, tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="TensorBoard is not installed"
    )
    train(TrainingRun(library_path, tmp_path / "run", settings(), specs_dir))
    (folder,) = (tmp_path / "run" / "tensorboard").iterdir()
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    assert [event.step for event in events.Scalars("time/fps")] == [32, 64]


@pytest.mark.usefixtures("shortened")
def test_a_missing_tensorboard_is_no_error(
    library_path: Path, specs_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import stable_baselines3.common.logger as logger

    import scenario_lib.learning.ppo as ppo

    monkeypatch.setattr(ppo, "find_spec", lambda _: None)
    monkeypatch.setattr(logger, "SummaryWriter", None)  # what Stable-Baselines3 has where it could not import it
    train(TrainingRun(library_path, tmp_path / "run", settings(steps=32), specs_dir))
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_actor_and_statistics_are_those_of_stable_baselines3() -> None:
    import gymnasium as gym
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import Logger
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
        model.set_logger(Logger(folder=None, output_formats=[]))  # its own leaves a temporary folder
        model.learn(32)
        actor, normalization = actor_of(model, "tanh"), normalization_of(environments)
        seen = np.random.default_rng(1).normal(3, 4, (200, 6)).astype(np.float32)
        normalized = environments.normalize_obs(seen)
        for observation, expected in zip(seen, normalized, strict=True):
            ours = normalization.observed(observation)
            assert ours == pytest.approx(expected, abs=1e-6)
            action, _ = model.predict(expected, deterministic=True)
            assert np.array_equal(actor.act(ours), action)
