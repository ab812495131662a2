"""What environments are told beside simulation and observation."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from scenario_lib.env.action import require_mode
from scenario_lib.env.picking import Library
from scenario_lib.env.reward import RewardConfig
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.checks import refuse
from scenario_lib.feeders.experiment import DURATION_S

DIVERGENCE_MODES = ("truncate", "raise")


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """Settings of both environments and of the vector environment; see `BatchSizeEnv` for each."""

    reward_config: RewardConfig = field(default_factory=RewardConfig)
    action_mode: str = "delta"
    logistic_models: Any = None
    dt_ctrl: Fraction = Fraction(1)
    total_duration_s: int = DURATION_S
    scenario_library: Library | None = None
    ofo_baseline: bool = False
    truncate_episode: bool = False
    on_divergence: str = "truncate"
    worker: tuple[int, int] | None = None
    coverage: str = "random"
    render_mode: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward_config", RewardConfig.of(self.reward_config))
        require_mode(self.action_mode)
        if self.on_divergence not in DIVERGENCE_MODES:
            raise refuse("on_divergence", self.on_divergence, f"one of {', '.join(DIVERGENCE_MODES)}")
        if self.dt_ctrl <= 0:
            raise InvalidSettingError(f"dt_ctrl is {self.dt_ctrl} s; expected more than 0 s")
        if self.render_mode not in (None, "rgb_array"):
            raise refuse("render_mode", self.render_mode, "None or 'rgb_array'")
