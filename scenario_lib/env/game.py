"""An episode as environments see it: it begins, and is played turn by turn, on either engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.episode import Episode, OFOBaseline
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.env.picking import Library
from scenario_lib.env.settings import EnvSettings
from scenario_lib.errors import PowerFlowError
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.model import Scenario

Observation = NDArray[np.float32]
DrawScenario = Callable[[], Scenario | None]
"""Gives the scenario of an episode's record, None for the experiment as it stands."""


def scenario_drawer(library: Library | None, record: ScenarioRecord | None) -> DrawScenario:
    """Gives the scenario of a record, None without one; a scenario that was compiled before is not drawn again."""

    def draw() -> Scenario | None:
        return None if library is None or record is None else library.materialize(record)

    return draw


ChooseSites = Callable[[Sequence[str]], list[str]]
"""From the names of all sites to those that the agent sees and sets."""


@dataclass(frozen=True, slots=True)
class GameSettings:
    """What both engines need to play."""

    obs_config: ObservationConfig
    env: EnvSettings
    choose_sites: ChooseSites
    ofo: OFOBaseline | None


class Turn(NamedTuple):
    """What a step brings.

    Attributes:
        batch_sizes: Of the observed models.
        components: Terms of the reward, and the OFO bonus that is inside "voltage".
        failure: Set if the power flow diverged; reward and components are empty then, all else is as before the step.
    """

    observation: Observation
    reward: float
    batch_sizes: dict[str, int]
    components: dict[str, float]
    voltage_stats: dict[str, float]
    failure: PowerFlowError | None


class Game(Protocol):
    """One episode after another on some engine."""

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        """The (bus, phase) pairs of the feeder, once an episode has begun."""
        ...

    def begin(self, episode: Episode, draw: DrawScenario) -> tuple[Observation, dict[str, int]]:
        """Simulate up to the episode's start and one interval more; the observation and the batch sizes that run.

        Raises:
            PowerFlowError: The power flow diverges on the way.
        """
        ...

    def play(self, action: object, episode: Episode) -> Turn:
        """One step; advances `episode.step`.

        Raises:
            InvalidSettingError: An action of the wrong kind; nothing has happened then.
        """
        ...

    def voltages_vector(self) -> NDArray[np.float64]:
        """Voltages (pu) of the last second."""
        ...

    def close(self) -> None:
        """Release what the episode holds."""
        ...
