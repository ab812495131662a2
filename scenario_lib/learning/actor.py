"""The actor network as plain numbers: enough to act, without the library that trained it.

Reading it runs no code of the file, which a pickled model would; and workers of an evaluation need no PyTorch.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError, PolicyError
from scenario_lib.feeders.checks import STRICT, Bounds, refuse

Matrix = NDArray[np.float32]

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
    def _matrices(self) -> list[tuple[Matrix, Matrix]]:
        return [(np.array(x.weight, dtype=np.float32), np.array(x.bias, dtype=np.float32)) for x in self.layers]

    def scores(self, observation: NDArray[np.float32]) -> Matrix:
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
