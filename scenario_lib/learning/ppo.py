"""PPO by Stable-Baselines3: the one module that loads PyTorch.

A checkpoint is continued by building the model anew from the settings and loading its weights and optimizer state
with `set_parameters`, which reads tensors only (`weights_only=True`): nothing of `model.zip` is ever unpickled.
"""

import time
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecNormalize

from scenario_lib._values import refused
from scenario_lib.errors import PolicyError
from scenario_lib.learning.actor import Actor, Layer, Normalization, RunningStatistics
from scenario_lib.learning.environments import TrainingEnvironments, base_seed, environment_facts, make_vector_env
from scenario_lib.learning.policy import (
    FORMAT_VERSION,
    MODEL,
    NORMALIZE,
    PolicyCard,
    PolicyParts,
    TrainingLibrary,
    read_part,
)
from scenario_lib.learning.run_folder import (
    TENSORBOARD,
    EpisodeRow,
    EpisodeTally,
    RunFolder,
    ShowProgress,
    TrainingCheckpoint,
    TrainingProgress,
    TrainingResult,
)
from scenario_lib.learning.settings import PPOSettings, TrainingSettings
from scenario_lib.library.provenance import versions

_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
_RECENT_EPISODES = 40
_UNPACKED_TO_WEIGHTS, _UNPACKED_BESIDE_BYTES = 4, 20_000_000
"""Of `model.zip`: weights once, the optimizer's moments twice, and what Stable-Baselines3 says beside them."""


@dataclass(frozen=True, slots=True)
class PPORun:
    """Parts of one run, as `train` has checked them.

    Attributes:
        checkpoint: To go on from; None for a fresh start.
    """

    world: TrainingEnvironments
    trained_on: TrainingLibrary
    folder: RunFolder
    checkpoint: TrainingCheckpoint | None
    device: str


def run_ppo(run: PPORun, show: ShowProgress) -> TrainingResult:
    """Train until the settings' steps are done; see `train`."""
    # The networks are small: more threads would only take time from the environments, and change sums.
    torch.set_num_threads(1)
    settings, checkpoint = run.world.settings, run.checkpoint
    done = 0 if checkpoint is None else checkpoint.card.steps
    seed = base_seed(settings.seed, done)
    set_random_seed(seed)
    card = _card(run)
    environments = VecNormalize(make_vector_env(run.world, seed), **_normalize_arguments(settings.ppo))
    with closing(environments):
        model = _model(environments, settings, run)
        if checkpoint is not None:
            _restore(model, environments, checkpoint)
        recorder = _Recorder(card, run.folder, show, [] if checkpoint is None else checkpoint.episodes)
        started = time.monotonic()
        model.learn(settings.steps - done, callback=recorder, reset_num_timesteps=False)
        return recorder.result((model.num_timesteps - done) / (time.monotonic() - started))


def _card(run: PPORun) -> PolicyCard:
    facts = environment_facts(run.world)
    return PolicyCard(
        format_version=FORMAT_VERSION,
        feeder=facts.feeder,
        bus_phases=facts.bus_phases,
        sites=facts.sites,
        observation_config=facts.observation_config,
        settings=run.world.settings,
        library=run.trained_on,
        steps=0,
        versions={**versions(), "stable_baselines3": version("stable-baselines3"), "torch": version("torch")},
        digests={},
    )


def _normalize_arguments(ppo: PPOSettings) -> dict[str, Any]:
    return {
        "norm_obs": ppo.normalize_observations,
        "norm_reward": ppo.normalize_rewards,
        "clip_obs": ppo.clip_observations,
        "clip_reward": ppo.clip_rewards,
        "gamma": ppo.gamma,
    }


def _model(environments: Any, settings: TrainingSettings, run: PPORun) -> Any:
    ppo = settings.ppo
    last = ppo.learning_rate if ppo.final_learning_rate is None else ppo.final_learning_rate
    logs = str(run.folder.path / TENSORBOARD) if find_spec("tensorboard") else None
    model = PPO(
        "MlpPolicy",
        environments,
        learning_rate=lambda remaining: last + (ppo.learning_rate - last) * remaining,
        n_steps=ppo.n_steps,
        batch_size=ppo.batch_size,
        n_epochs=ppo.n_epochs,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_range=ppo.clip_range,
        ent_coef=ppo.entropy_weight,
        vf_coef=ppo.value_weight,
        max_grad_norm=ppo.max_grad_norm,
        target_kl=ppo.target_kl,
        policy_kwargs={
            "net_arch": {"pi": list(ppo.hidden_sizes), "vf": list(ppo.hidden_sizes)},
            "activation_fn": _ACTIVATIONS[ppo.activation],
        },
        tensorboard_log=logs,
        device=run.device,
    )
    if logs is None:
        # Its own logger would write nothing either, but leave an empty folder among the temporary files.
        model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def _restore(model: Any, environments: Any, checkpoint: TrainingCheckpoint) -> None:
    try:
        _require_bounded(model, checkpoint)
        model.set_parameters(checkpoint.folder / MODEL, device=model.device)
    except PolicyError:
        raise
    except Exception:  # noqa: BLE001 - zip, pickle and torch have dozens of their own, and advice that is unsafe
        raise _unusable(checkpoint) from None
    if not all(bool(torch.isfinite(part).all()) for part in model.policy.parameters()):
        raise _unusable(checkpoint)
    model.num_timesteps = checkpoint.card.steps
    stored = read_part(checkpoint.folder, checkpoint.card, NORMALIZE, Normalization)
    if stored.observations is not None:
        _set_statistics(environments.obs_rms, stored.observations)
    if stored.returns is not None:
        _set_statistics(environments.ret_rms, stored.returns)


def _require_bounded(model: Any, checkpoint: TrainingCheckpoint) -> None:
    """Refuse an archive that unpacks to more than weights and optimizer state of this network can take."""
    expected = sum(part.numel() * part.element_size() for part in model.policy.parameters())
    most = _UNPACKED_TO_WEIGHTS * expected + _UNPACKED_BESIDE_BYTES
    path = checkpoint.folder / MODEL
    with ZipFile(path) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > most:
        raise PolicyError(
            f"{path}: unpacks to {unpacked / 1e6:.0f} MB; expected at most {most / 1e6:.0f} MB of a network of these "
            f"settings; restore it, or train anew into another --out"
        )


def _unusable(checkpoint: TrainingCheckpoint) -> PolicyError:
    return PolicyError(
        f"{checkpoint.folder / MODEL}: does not hold finite weights and the optimizer of a network with these "
        f"settings: it is damaged, or another program's; restore it, or train anew into another --out"
    )


def _set_statistics(running: Any, stored: RunningStatistics) -> None:
    shape = np.shape(running.mean)
    running.mean = np.array(stored.mean, dtype=np.float64).reshape(shape)
    running.var = np.array(stored.var, dtype=np.float64).reshape(shape)
    running.count = stored.count


def _statistics(running: Any) -> RunningStatistics:
    return RunningStatistics(
        tuple(np.ravel(running.mean).tolist()), tuple(np.ravel(running.var).tolist()), float(running.count)
    )


def normalization_of(environments: Any) -> Normalization:
    """What a `VecNormalize` does, as plain numbers."""
    return Normalization(
        observations=_statistics(environments.obs_rms) if environments.norm_obs else None,
        returns=_statistics(environments.ret_rms) if environments.norm_reward else None,
        clip_observations=environments.clip_obs,
        clip_rewards=environments.clip_reward,
        epsilon=environments.epsilon,
    )


def vec_normalize_of(environment: Any) -> VecNormalize | None:
    """The `VecNormalize` around an environment, below other wrappers; None if there is none."""
    while not isinstance(environment, VecNormalize) and hasattr(environment, "venv"):
        environment = environment.venv
    return environment if isinstance(environment, VecNormalize) else None


def activation_of(model: Any) -> str:
    """Name of the activation between a policy's layers.

    Raises:
        InvalidSettingError: Another one than tanh or relu.
    """
    for name, kind in _ACTIVATIONS.items():
        if model.policy.activation_fn is kind:
            return name
    raise refused("activation of the model", model.policy.activation_fn.__name__, "Tanh or ReLU")


def actor_of(model: Any, activation: str) -> Actor:
    """The actor of a PPO model, as plain numbers."""
    policy = model.policy
    hidden = [part for part in policy.mlp_extractor.policy_net if isinstance(part, torch.nn.Linear)]
    space = model.action_space
    single = not hasattr(space, "nvec")
    choices = (int(space.n),) if single else tuple(int(n) for n in space.nvec)
    return Actor(tuple(_layer(part) for part in [*hidden, policy.action_net]), activation, choices, single)


def _layer(linear: Any) -> Layer:
    weight, bias = linear.weight.detach().cpu().numpy(), linear.bias.detach().cpu().numpy()
    return Layer(tuple(tuple(row) for row in weight.tolist()), tuple(bias.tolist()))


class _Recorder(BaseCallback):  # type: ignore[misc]
    """Tallies episodes, shows progress, and writes checkpoints between an update and the next steps."""

    def __init__(self, card: PolicyCard, folder: RunFolder, show: ShowProgress, episodes: list[EpisodeRow]) -> None:
        super().__init__()
        self.episodes = episodes
        self._card = card
        self._folder = folder
        self._show = show
        self._saved_steps = 0

    @property
    def mean_return(self) -> float | None:
        """Mean over the last episodes; None before the first ended."""
        recent = [row.episode_return for row in self.episodes[-_RECENT_EPISODES:]]
        return float(np.mean(recent)) if recent else None

    def result(self, steps_per_s: float) -> TrainingResult:
        """What the run did so far."""
        return TrainingResult(
            self._folder.policy, self.num_timesteps, len(self.episodes), self.mean_return, steps_per_s
        )

    def _on_training_start(self) -> None:
        self._saved_steps = self.num_timesteps
        self._tallies = [EpisodeTally(self._card.settings.reward.w_voltage) for _ in range(self.training_env.num_envs)]

    def _on_step(self) -> bool:
        now = time.monotonic()
        rewards = self.training_env.get_original_reward()
        for tally, reward, done, info in zip(
            self._tallies, rewards, self.locals["dones"], self.locals["infos"], strict=True
        ):
            tally.add(float(reward), info["reward_components"], now)
            if done:
                self.episodes.append(tally.finish(info, self.num_timesteps, now))
        return True

    def _on_rollout_start(self) -> None:
        # Here the update on the steps before is done, so that weights and step count belong together.
        if self.num_timesteps - self._saved_steps >= self._card.settings.checkpoint_steps:
            self._save()

    def _on_rollout_end(self) -> None:
        total = self._card.settings.steps
        self._show(TrainingProgress(self.num_timesteps, total, len(self.episodes), self.mean_return))

    def _on_training_end(self) -> None:
        self._save()

    def _save(self) -> None:
        activation = self._card.settings.ppo.activation
        parts = PolicyParts(
            card=replace(self._card, steps=self.num_timesteps),
            actor=actor_of(self.model, activation),
            normalization=normalization_of(self.training_env),
            write_model=self.model.save,
        )
        self._folder.save(parts, self.episodes)
        self._saved_steps = self.num_timesteps
