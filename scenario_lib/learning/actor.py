"""The actor network as plain numbers: enough to act, without the library that trained it.

Reading it runs no code of the file, which a pickled model would; and workers of an evaluation need no PyTorch.

Running statistics of observations and returns, as they are stored with a policy: plain numbers, never a pickle.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Singles
from scenario_lib._values import STRICT, Bounds, positive, refuse, require_bounds
from scenario_lib.errors import InvalidSettingError, PolicyError

_WEIGHT = Bounds(-1e6, 1e6)
_MOST_CHOICES = 100_000


@dataclass(frozen=True, slots=True)
class Layer:
    """One linear layer: `weight` has a row per output."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    weight: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weight) != len(self.bias) or len({len(row) for row in self.weight}) != 1:
            raise InvalidSettingError("a layer's weight is no matrix with one row for each number of its bias")
        for numbers in (*self.weight, self.bias):
            _WEIGHT.require("smallest weight of a layer", min(numbers, default=0.0))
            _WEIGHT.require("largest weight of a layer", max(numbers, default=0.0))


@dataclass(frozen=True)
class Actor:
    """A perceptron from an observation to the likeliest action.

    Attributes:
        activation: "tanh" or "relu", after each layer but the last.
        choices: Number of choices per part of the action; the last layer has one output for each choice of each part.
        single: The action is one number and no array.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    layers: tuple[Layer, ...]
    activation: str
    choices: tuple[int, ...]
    single: bool

    def __post_init__(self) -> None:
        if self.activation not in ("tanh", "relu"):
            raise refuse("activation", self.activation, "tanh or relu")
        if not self.choices or min(self.choices) < 1 or sum(self.choices) > _MOST_CHOICES:
            raise refuse("choices", self.choices, "at least one choice in each part of the action")
        if self.single and len(self.choices) != 1:
            raise refuse("choices", self.choices, "one number where the action is a single one")
        widths = [len(layer.bias) for layer in self.layers]
        inputs = [len(layer.weight[0]) for layer in self.layers]
        if widths[:-1] != inputs[1:] or widths[-1:] != [sum(self.choices)]:
            raise InvalidSettingError(
                f"layers of {inputs} inputs and {widths} outputs do not make a network of {sum(self.choices)} choices"
            )

    @property
    def n_inputs(self) -> int:
        """Slots of the observation."""
        return len(self.layers[0].weight[0])

    @cached_property
    def _matrices(self) -> list[tuple[Singles, Singles]]:
        return [(np.array(x.weight, dtype=np.float32), np.array(x.bias, dtype=np.float32)) for x in self.layers]

    def scores(self, observation: NDArray[np.float32]) -> Singles:
        """Logits of all choices, shape (sum of choices,)."""
        hidden = observation
        for weight, bias in self._matrices[:-1]:
            hidden = weight @ hidden + bias
            hidden = np.tanh(hidden) if self.activation == "tanh" else np.maximum(hidden, 0)
        weight, bias = self._matrices[-1]
        return np.asarray(weight @ hidden + bias)

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest action, shape (parts,), or () for a single number.

        Raises:
            PolicyError: An output overflows.
        """
        scores = self.scores(observation)
        if not np.isfinite(scores).all():
            raise PolicyError("the actor's outputs are not all finite: its weights are not those of a trained policy")
        parts = np.split(scores, np.cumsum(self.choices)[:-1])
        action = np.array([np.argmax(part) for part in parts], dtype=np.int64)
        return action[0] if self.single else action


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
