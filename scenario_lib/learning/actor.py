"""The actor network as plain numbers: enough to act, without the library that trained it.

Reading it runs no code of the file, which a pickled model would; and workers of an evaluation need no PyTorch.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.checks import STRICT, refuse

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Layer:
    """One linear layer: `weight` has a row per output."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    weight: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weight) != len(self.bias) or len({len(row) for row in self.weight}) != 1:
            raise InvalidSettingError("a layer's weight is no matrix with one row for each number of its bias")


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
        """The likeliest action, shape (parts,), or () for a single number."""
        parts = np.split(self.scores(observation), np.cumsum(self.choices)[:-1])
        action = np.array([np.argmax(part) for part in parts], dtype=np.int64)
        return action[0] if self.single else action
