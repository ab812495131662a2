"""Running statistics of observations and returns, as they are stored with a policy: plain numbers, never a pickle."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.checks import STRICT, Bounds, positive, require_bounds

Array = NDArray[np.float64]

# Far beyond what training meets, and far within what float32 holds, which policies see.
_MEAN, _VARIANCE = Bounds(-1e15, 1e15), Bounds(0, 1e30)
_STATISTICS_BOUNDS = {"count": positive(1e18)}
_NORMALIZATION_BOUNDS = {"clip_observations": positive(), "clip_rewards": positive(), "epsilon": positive(1)}


@dataclass(frozen=True, slots=True)
class RunningStatistics:
    """Mean and variance so far, and of how many values.

    Attributes:
        mean, var: One number a slot; one in all for returns.
        count: Weight of what was seen; a small start value is part of it.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    mean: tuple[float, ...]
    var: tuple[float, ...]
    count: float

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.var):
            raise InvalidSettingError(f"mean has {len(self.mean)} numbers and var {len(self.var)}; expected as many")
        for mean, variance in zip(self.mean, self.var, strict=True):
            _MEAN.require("mean", mean)
            _VARIANCE.require("var", variance)
        require_bounds(self, _STATISTICS_BOUNDS)


@dataclass(frozen=True, slots=True)
class Normalization:
    """What is done to observations before a policy sees them, and was done to rewards while it was trained.

    Attributes:
        observations, returns: None where that is not normalised.
        clip_observations, clip_rewards: Bounds of the normalised values.
        epsilon: Added to variances, so that a constant slot divides by no zero.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    observations: RunningStatistics | None
    returns: RunningStatistics | None
    clip_observations: float
    clip_rewards: float
    epsilon: float

    def __post_init__(self) -> None:
        require_bounds(self, _NORMALIZATION_BOUNDS)

    def observed(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """The observation as the policy sees it, shape unchanged, float32."""
        if self.observations is None:
            return observation
        mean, var = np.asarray(self.observations.mean), np.asarray(self.observations.var)
        scaled = (observation - mean) / np.sqrt(var + self.epsilon)
        return np.asarray(np.clip(scaled, -self.clip_observations, self.clip_observations), dtype=np.float32)
