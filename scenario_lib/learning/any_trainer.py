"""Policies of any trainer: whatever predicts actions for observations of an environment is evaluated as ours are::

    environment = make_batch_size_env("libraries/ieee13-train")
    mine = EnvironmentPolicy.of(predict, environment, "mine")          # predict(observation) -> action
    evaluate("libraries/ieee13-test", EvaluationOptions(policies=(mine,)))

`export_sb3` writes a policy of Stable-Baselines3 into a folder, as plain numbers that act without it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openg2g.controller.base import Controller

from scenario_lib._values import as_path, refused, require_name
from scenario_lib.env.episode import BackendSettings
from scenario_lib.env.factories import open_environment_parts
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.errors import InvalidSettingError, PolicyError
from scenario_lib.learning.actor import Normalization
from scenario_lib.learning.environments import require_extra, training_library
from scenario_lib.learning.policy import (
    CARD,
    FORMAT_VERSION,
    PolicyCard,
    PolicyController,
    PolicyParts,
    TrainedPolicy,
    whole_directory,
    write_policy,
)
from scenario_lib.learning.settings import EnvironmentSettings, TrainingSettings
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.provenance import versions

Predict = Callable[[NDArray[np.float32]], Any]
"""An action for an observation; a pair, as Stable-Baselines3 returns, counts with its first part."""


@dataclass(frozen=True, repr=False)
class EnvironmentPolicy:
    """A function of observations as a policy; several jobs need one that can be pickled.

    Attributes:
        name: What tables call it.
        card: What it observes and sets, and on which library it was trained.
        predict: Decides.
    """

    name: str
    card: PolicyCard
    predict: Predict

    def __repr__(self) -> str:
        return f"EnvironmentPolicy({self.name!r}: sites {', '.join(self.card.sites)} on {self.card.feeder})"

    @classmethod
    def of(cls, predict: Any, environment: Any, name: str = "policy") -> "EnvironmentPolicy":
        """The policy of a function, or of an object with `predict(observation)`.

        Args:
            environment: One that it was made for: one environment, a vector of them, or a `VecEnv` of
                Stable-Baselines3, with the library that it was trained on and an observation by mode.

        Raises:
            InvalidSettingError: Neither a function nor such an object; no such environment; or an observation of one's
                own, which a rollout cannot make.
        """
        function = getattr(predict, "predict", predict)
        if not callable(function):
            raise refused("predict", predict, "a function of an observation, or an object with predict(observation)")
        require_name("name", name)
        return cls(name, card_of(environment), function)

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """The action for an observation of the environment."""
        action = self.predict(observation)
        return np.asarray(action[0] if isinstance(action, tuple) else action)

    def controllers(self, datacenters: Mapping[str, Any], grid: Any) -> list[Controller]:
        """The one controller that runs this policy in a rollout.

        Raises:
            PolicyError: The rollout lacks one of the policy's sites.
        """
        return [PolicyController(self, datacenters, grid)]


AnyPolicy = TrainedPolicy | EnvironmentPolicy


def as_policy_source(field: str, value: object) -> Path | AnyPolicy:
    """A policy, or the path of one."""
    return value if isinstance(value, TrainedPolicy | EnvironmentPolicy) else as_path(field, value)


def load_policy(source: Path | AnyPolicy) -> AnyPolicy:
    """The policy itself, or the one of a folder.

    Raises:
        PolicyError: As from `TrainedPolicy.load`.
    """
    return TrainedPolicy.load(source) if isinstance(source, Path) else source


def card_of(environment: Any, steps: int = 0) -> PolicyCard:
    """What a policy of an environment observes and sets, and what it was trained on.

    Raises:
        InvalidSettingError: As from `EnvironmentPolicy.of`.
    """
    told = _told(environment)
    library = told.env.scenario_library
    whole = library if library is None or isinstance(library, ScenarioLibrary) else library.library
    if whole is None:
        raise InvalidSettingError("environment: plays no library; expected one made with library=...")
    if told.env.extensions is not None and told.env.extensions.blocks:
        raise InvalidSettingError(
            "environment: its observation is made of blocks or by a function, which a rollout cannot show; expected "
            "one by mode, such as 'full-voltage'"
        )
    parts = open_environment_parts(whole)
    chosen = told.choose_sites([site.name for site in parts.experiment.sites])
    sites = [site for site in parts.experiment.sites if site.name in chosen]
    return PolicyCard(
        format_version=FORMAT_VERSION,
        feeder=parts.experiment.name,
        bus_phases=parts.bus_phases,
        sites={site.name: tuple(model.label for model in site.models) for site in sites},
        observation_config=told.obs_config,
        settings=TrainingSettings(environment=_settings_of(told), reward=told.env.reward_config),
        library=training_library(whole),
        steps=steps,
        versions=versions(),
        digests={},
    )


def _told(environment: Any) -> BackendSettings:
    """What an environment was told, below all wrappers."""
    inner = environment
    while not hasattr(inner, "backend_settings"):
        inner = getattr(inner, "venv", getattr(inner, "env", None))
        if inner is None:
            raise refused("environment", environment, "an environment of scenario_lib.env, wrapped or not")
    told: BackendSettings = inner.backend_settings
    return told


def _settings_of(told: BackendSettings) -> EnvironmentSettings:
    return EnvironmentSettings(
        observation=_mode_of(told.obs_config),
        action=told.env.action_mode,
        truncate_episode=told.env.truncate_episode,
        ofo_baseline=told.env.ofo_baseline,
        coverage=told.env.coverage,
    )


def _mode_of(config: ObservationConfig) -> str:
    """The mode whose layout a configuration is."""
    if config.zone_summary:
        return "per-zone-summary"
    if config.bus_phase_groups is not None:
        return "per-bus-summary"
    return "full-voltage" if config.n_bus_phases else "system-summary-only"


def export_sb3(model: Any, environment: Any, folder: Any) -> Path:
    """Write a policy of Stable-Baselines3 as plain numbers, from which `evaluate` and `TrainedPolicy.load` act.

    Args:
        model: An on-policy model (PPO, A2C) with an `MlpPolicy` of tanh or relu units.
        environment: What it was trained in; a `VecNormalize` around it is stored too.
        folder: To be written; an earlier policy there is replaced.

    Returns:
        The folder.

    Raises:
        MissingExtraError: Stable-Baselines3 is not installed.
        InvalidSettingError: Another kind of model or environment.
        PolicyError: Something else is at `folder`.
    """
    require_extra()
    from scenario_lib.learning.ppo import activation_of, actor_of, normalization_of, vec_normalize_of

    out = as_path("folder", folder)
    if not hasattr(getattr(model, "policy", None), "action_net"):
        raise refused("model", model, "an on-policy model of Stable-Baselines3 (PPO, A2C) with an MlpPolicy")
    if out.exists() and not (out / CARD).is_file():
        raise PolicyError(f"{out}: is there, and is no policy; choose another folder")
    normalize = vec_normalize_of(environment)
    parts = PolicyParts(
        card=card_of(environment, int(model.num_timesteps)),
        actor=actor_of(model, activation_of(model)),
        normalization=_PLAIN if normalize is None else normalization_of(normalize),
        write_model=model.save,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_directory(out) as fresh:
        write_policy(fresh, parts)
    TrainedPolicy.load(out)
    return out


_PLAIN = Normalization(observations=None, returns=None, clip_observations=10.0, clip_rewards=10.0, epsilon=1e-8)
"""Nothing is normalised."""
