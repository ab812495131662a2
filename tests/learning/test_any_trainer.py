"""Policies of other trainers are evaluated as ours are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from policy_samples import WritePolicy

from scenario_lib.env.factories import make_batch_size_env, make_batch_size_vector_env, make_shared_batch_size_env
from scenario_lib.errors import InvalidSettingError, PolicyError, SharedSeedsError
from scenario_lib.learning.any_trainer import EnvironmentPolicy, card_of, export_sb3
from scenario_lib.learning.evaluation import EvaluationOptions, evaluate
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.views import LibraryView, RecordFilter

SHARED = {"allow_shared_seeds": True, "baselines": (), "records": 1}


def all_down(observation: np.ndarray) -> np.ndarray:
    """Every model one size down."""
    assert observation.dtype == np.float32
    return np.zeros(5, int)


class Stay:
    """As Stable-Baselines3's models predict: an action and a state."""

    def predict(self, observation: np.ndarray) -> tuple[np.ndarray, None]:
        del observation
        return np.ones(5, int), None


def test_a_function_and_an_object_are_rolled_out(library_path: Path, specs_dir: Path) -> None:
    env = make_batch_size_env(library_path, specs_dir)
    policies = EnvironmentPolicy.of(all_down, env, "down"), EnvironmentPolicy.of(Stay(), env, "stay")
    assert repr(policies[0]) == "EnvironmentPolicy('down': sites default on ieee13)"
    options = EvaluationOptions(
        policies=policies, controllers=("always-smallest",), **{**SHARED, "baselines": ("none",)}
    )
    compared = {row.control: row for row in evaluate(library_path, options).scenarios}
    assert compared["stay"].figures.integral_pu_s == compared["none"].figures.integral_pu_s
    assert compared["down"].figures.integral_pu_s < 0.7 * compared["none"].figures.integral_pu_s
    with pytest.raises(SharedSeedsError, match="policy down was trained on"):
        evaluate(library_path, EvaluationOptions(policies=policies))


def test_absolute_actions_are_places(library_path: Path, specs_dir: Path) -> None:
    env = make_batch_size_env(library_path, specs_dir, action="absolute")
    smallest = EnvironmentPolicy.of(lambda observation: np.zeros(5, int), env, "smallest")
    options = EvaluationOptions(policies=(smallest,), **{**SHARED, "baselines": ("always-smallest",)})
    rows = evaluate(library_path, options).scenarios
    assert rows[0].figures.integral_pu_s == pytest.approx(rows[1].figures.integral_pu_s, rel=1e-9)


def test_the_card_says_what_the_environment_was(library_path: Path, specs_dir: Path) -> None:
    view = LibraryView(ScenarioLibrary(library_path), RecordFilter(seeds=[7]))
    made = make_batch_size_env(view, specs_dir, observation="per-bus-summary", reward={"w_switch": 3.0})
    card = card_of(made)
    assert (card.feeder, list(card.sites), card.settings.environment.observation) == (
        "ieee13",
        ["default"],
        "per-bus-summary",
    )
    assert card.settings.reward.w_switch == 3.0
    assert [record.seed for record in card.library.records] == [7, 2007, 6007]
    vector = make_batch_size_vector_env(2, library_path, specs_dir, action="coupled")
    assert card_of(vector).settings.environment.action == "coupled"
    assert card_of(make_shared_batch_size_env(library_path, specs_dir)).sites == card.sites


@pytest.mark.parametrize(
    ("predict", "settings", "message"),
    [
        (7, {}, "predict is 7; expected a function of an observation"),
        (all_down, {"observation": ["voltages"]}, "made of blocks or by a function"),
    ],
)
def test_what_cannot_be_a_policy_is_refused(
    library_path: Path, specs_dir: Path, predict: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        EnvironmentPolicy.of(predict, make_batch_size_env(library_path, specs_dir, **settings))


@pytest.mark.parametrize("environment", [None, 7, object()])
def test_what_is_no_environment_is_refused(environment: object) -> None:
    with pytest.raises(InvalidSettingError, match=r"environment is .*expected an environment of scenario_lib\.env"):
        EnvironmentPolicy.of(all_down, environment)


def test_an_exported_policy_acts_as_the_model_it_is_of(library_path: Path, specs_dir: Path, tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="needs the extra: pip install 'scenario-lib[train]'")
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import VecNormalize

    from scenario_lib.env.sb3 import BatchSizeVecEnv

    made = BatchSizeVecEnv(make_batch_size_vector_env(2, library_path, specs_dir, autoreset_mode="SameStep"), seed=0)
    environment = VecNormalize(made)
    model = sb3.A2C("MlpPolicy", environment, n_steps=4, seed=0, device="cpu")
    model.set_logger(Logger(folder=None, output_formats=[]))  # its own leaves a temporary folder
    model.learn(16)
    folder = export_sb3(model, environment, tmp_path / "mine")
    policy = TrainedPolicy.load(folder)
    assert (policy.name, policy.card.steps) == ("mine", 16)
    environment.training = False
    seen = environment.reset()
    expected, _ = model.predict(seen, deterministic=True)
    raw = environment.get_original_obs()
    assert [policy.act(row).tolist() for row in raw] == expected.tolist()
    again = export_sb3(model, environment, folder)
    assert TrainedPolicy.load(again).actor == policy.actor
    assert evaluate(library_path, EvaluationOptions(policies=(folder,), **SHARED)).scenarios[0].control == "mine"
    (tmp_path / "thesis").mkdir()
    with pytest.raises(PolicyError, match="is there, and is no policy"):
        export_sb3(model, environment, tmp_path / "thesis")
    with pytest.raises(InvalidSettingError, match="expected an on-policy model"):
        export_sb3(object(), environment, tmp_path / "other")


def test_a_folder_and_a_policy_stand_side_by_side(
    library_path: Path, specs_dir: Path, policy_on_disk: WritePolicy
) -> None:
    down = EnvironmentPolicy.of(all_down, make_batch_size_env(library_path, specs_dir), "down")
    folder = policy_on_disk("random")
    compared = evaluate(library_path, EvaluationOptions(policies=(folder, down), specs_dir=specs_dir, **SHARED))
    assert [row.control for row in compared.scenarios] == ["random", "down"]
    assert json.loads((folder / "policy.json").read_text())["feeder"] == "ieee13"
