"""What training is told: how long, on which environment, paid for what, and PPO's own settings.

A settings file is TOML with the tables `[environment]`, `[reward]` and `[ppo]`; names are those of the fields here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from scenario_lib._parsing import TRAINING, parse_settings_file, read_toml
from scenario_lib._values import (
    STRICT,
    Bounds,
    as_whole_number,
    built_as,
    convert_fields,
    count,
    likely,
    positive,
    refuse,
    require_at_most_entries,
    require_between,
    require_bounds,
    require_count,
    shown,
    tuple_of,
)
from scenario_lib.env.action import ACTION_MODES
from scenario_lib.env.reward import RewardConfig
from scenario_lib.env.sampling import COVERAGES
from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.simulation.engines import COMPILED, REFERENCE, engine_from_label

_ACTIVATIONS = ("tanh", "relu")
Tables = dict[str, Any]
_LARGEST_SEED = 2**32 - 1  # what PyTorch, numpy and Python take alike

_PPO_BOUNDS = {
    "n_steps": count(2, 1_000_000),
    "batch_size": count(2, 100_000_000),
    "n_epochs": count(1, 10_000),
    "learning_rate": positive(1000),
    "final_learning_rate": Bounds(0, 1000),
    "gamma": Bounds(0),
    "gae_lambda": Bounds(0),
    "clip_range": positive(1e6),
    "entropy_weight": Bounds(0, 1e6),
    "value_weight": Bounds(0, 1e6),
    "max_grad_norm": positive(),
    "target_kl": positive(),
    "clip_observations": positive(),
    "clip_rewards": positive(),
}
_TRAINING_BOUNDS = {
    "steps": count(1, 10**12),
    "envs": count(1, 10_000),
    "checkpoint_steps": count(1, 10**12),
    "seed": count(0, 2**63),
}
_MOST_LAYERS, _MOST_UNITS = 20, 10_000


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """The environment that is trained in; see `scenario_lib.env.factories`.

    Attributes:
        shared: One policy sets the batch sizes of all sites; otherwise those of one.
        site: The agent's site; None for the first.
        truncate_episode: Episodes are the control windows of their records, not the whole hours.
        ofo_baseline: Pay for doing better than OFO in the same second.
        coverage: "disjoint": the environments see each scenario once before any twice; or "random".
        engine: "compiled", or "reference", on which one environment plays alone.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    observation: str = "full-voltage"
    action: str = "delta"
    shared: bool = False
    site: str | None = None
    truncate_episode: bool = True
    ofo_baseline: bool = False
    coverage: str = "disjoint"
    engine: str = COMPILED

    def __post_init__(self) -> None:
        if self.action not in ACTION_MODES:
            raise refuse("action", self.action, f"one of {', '.join(ACTION_MODES)}")
        if self.coverage not in COVERAGES:
            raise refuse("coverage", self.coverage, f"one of {', '.join(COVERAGES)}")
        engine_from_label(self.engine)
        if self.shared and self.site is not None:
            raise refuse("site", self.site, "none, because a shared policy sets all sites")


@dataclass(frozen=True, slots=True)
class PPOSettings:
    """Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347), as Stable-Baselines3 implements it.

    Attributes:
        n_steps: Steps of each environment between two updates.
        batch_size: Size of a minibatch; divides the steps of all environments between two updates.
        n_epochs: Passes over those steps in an update.
        learning_rate, final_learning_rate: Falls linearly from the first to the second; None: it stays.
        gae_lambda: Trade-off of generalised advantage estimation (arXiv:1506.02438).
        target_kl: An update stops early beyond this divergence; None for never.
        hidden_sizes: Units of the hidden layers of actor and critic each.
        normalize_observations, normalize_rewards: By running mean and variance; rewards by that of the return.
        clip_observations, clip_rewards: Bounds of the normalised values.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    n_steps: int = 256
    batch_size: int = 256
    n_epochs: int = 5
    learning_rate: float = 3e-4
    final_learning_rate: float | None = None
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    entropy_weight: float = 0.0
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    target_kl: float | None = None
    hidden_sizes: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    normalize_observations: bool = True
    normalize_rewards: bool = True
    clip_observations: float = 10.0
    clip_rewards: float = 10.0

    def __post_init__(self) -> None:
        convert_fields(self, hidden_sizes=tuple_of(as_whole_number))
        require_bounds(self, _PPO_BOUNDS)
        for name in ("gamma", "gae_lambda"):
            require_between(name, getattr(self, name), 0, 1)
        if self.final_learning_rate is not None:
            require_between("final_learning_rate", self.final_learning_rate, 0, self.learning_rate)
        if not self.hidden_sizes:
            raise refuse("hidden_sizes", self.hidden_sizes, "at least one layer")
        require_at_most_entries("hidden_sizes", self.hidden_sizes, _MOST_LAYERS)
        for units in self.hidden_sizes:
            require_count("hidden_sizes", units, 1, _MOST_UNITS)
        if self.activation not in _ACTIVATIONS:
            raise refuse("activation", self.activation, f"one of {', '.join(_ACTIVATIONS)}")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Everything that decides what a training run learns, beside the library.

    Attributes:
        steps: Environment steps in all; the run ends with the first update at or after them.
        envs: Environments that play at the same time.
        seed: Of weights, actions and scenario order.
        checkpoint_steps: A checkpoint is written each time that so many steps more are done.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    steps: int = 1_000_000
    envs: int = 8
    seed: int = 0
    checkpoint_steps: int = 100_000
    environment: EnvironmentSettings = EnvironmentSettings()
    reward: RewardConfig = RewardConfig()
    ppo: PPOSettings = PPOSettings()

    def __post_init__(self) -> None:
        convert_fields(self, environment=built_as(EnvironmentSettings), reward=built_as(RewardConfig))
        convert_fields(self, ppo=built_as(PPOSettings))
        require_bounds(self, _TRAINING_BOUNDS)
        require_between("seed", self.seed, 0, _LARGEST_SEED)
        if self.environment.engine == REFERENCE and self.envs != 1:
            raise refuse("envs", self.envs, "1 on the reference engine, as OpenDSS simulates one feeder per process")
        steps_per_update = self.ppo.n_steps * self.envs
        if steps_per_update % self.ppo.batch_size:
            raise refuse(
                "batch_size", self.ppo.batch_size, f"a divisor of n_steps times envs, which is {steps_per_update}"
            )

    def to_dict(self) -> Tables:
        """The settings as plain values."""
        return asdict(self)


def read_settings_tables(path: Path) -> Tables:
    """The tables of a settings file; what they hold is checked by `parse_settings`."""
    return read_toml(path, TRAINING)


def parse_settings(tables: Tables, source: str) -> TrainingSettings:
    """The settings that tables describe.

    Raises:
        DataFileError: A name is not known, or a value is not allowed; the message names the source and both.
    """
    # The reward's type is not one that is parsed from files elsewhere, and would let unknown names pass.
    known = [field.name for field in fields(RewardConfig)]
    reward = tables.get("reward", {})
    unknown = [name for name in reward if name not in known] if isinstance(reward, dict) else []
    if unknown:
        raise DataFileError(f"{source}: reward.{unknown[0]} is not known; {likely(unknown[0], known)}")
    return parse_settings_file(TrainingSettings, tables, source)


_TABLES = {"environment": EnvironmentSettings, "reward": RewardConfig, "ppo": PPOSettings}


def with_settings(tables: Tables, changes: Mapping[str, Any]) -> Tables:
    """The tables with some settings changed, each by its field's name, in whichever table that is.

    Raises:
        InvalidSettingError: No setting of that name.
    """
    changed: Tables = {**tables, **{name: dict(tables.get(name, {})) for name in _TABLES}}
    for name, value in changes.items():
        _table_of(changed, name)[name] = value
    return changed


def _table_of(tables: Tables, name: str) -> Tables:
    own = [field.name for field in fields(TrainingSettings) if field.name not in _TABLES]
    known = {field.name: table for table, kind in _TABLES.items() for field in fields(kind)}
    if name in own:
        return tables
    if name not in known:
        raise InvalidSettingError(f"setting {shown(name)} is not known; {likely(name, [*own, *known])}")
    table: Tables = tables[known[name]]
    return table
