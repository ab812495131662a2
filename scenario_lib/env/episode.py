"""The window of an episode in seconds, and the OFO penalty that an agent is measured against."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.picking import Library
from scenario_lib.env.reward import RewardConfig
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.checks import shown
from scenario_lib.library.record import ScenarioRecord


@dataclass(slots=True)
class Episode:
    """One episode's window and where it stands.

    Attributes:
        record: The played record; None for the experiment as it stands.
        start_s: First second that is observed.
        n_steps: Steps until the window ends.
        step: Steps taken.
        over: No further step may be taken.
    """

    record: ScenarioRecord | None
    start_s: int
    n_steps: int
    dt_ctrl: Fraction
    step: int = 0
    over: bool = False
    _dt_s: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._dt_s = float(self.dt_ctrl)

    @property
    def time_s(self) -> float:
        """Simulated second that the last observation shows."""
        return self.start_s + self.step * self._dt_s


def episode_of(record: ScenarioRecord | None, truncate: bool, total_duration_s: int, dt_ctrl: Fraction) -> Episode:
    """The window of one episode.

    Raises:
        InvalidSettingError: The window has no step.
    """
    windowed = record is not None and truncate
    start_s, end_s = (record.t_control_start, record.t_control_end) if windowed and record else (0, total_duration_s)
    n_steps = int(Fraction(end_s - start_s) / dt_ctrl) - 1
    if n_steps < 1:
        raise InvalidSettingError(f"the episode window {start_s} to {end_s} s has no step of {shown(dt_ctrl)} s")
    return Episode(record, start_s, n_steps, dt_ctrl)


class OFOBaseline:
    """Pays the agent for doing better than OFO did in the same simulated second."""

    def __init__(self, library: Library | None, reward_config: RewardConfig) -> None:
        if library is None:
            raise InvalidSettingError("ofo_baseline needs a scenario library, which has OFO's penalties")
        for recipe in library.recipes.values():
            limits = recipe.experiment.limits
            if (limits.v_min_pu, limits.v_max_pu) != (reward_config.v_min, reward_config.v_max):
                raise InvalidSettingError(
                    f"reward limits {reward_config.v_min} to {reward_config.v_max} pu are not those of the library "
                    f"({limits.v_min_pu} to {limits.v_max_pu} pu), so OFO's penalties do not compare"
                )
        self._weight = reward_config.w_voltage

    def bonus(self, episode: Episode) -> float:
        """w_voltage times OFO's penalty at the simulated second of the step just taken."""
        return self._weight * float(self._trace(episode)[int(episode.time_s)])

    def window_penalty(self, episode: Episode, n_seconds: int) -> NDArray[np.float64]:
        """OFO's penalty (pu^2) at every second of the episode, shape (n_seconds,)."""
        return np.asarray(self._trace(episode)[episode.start_s : episode.start_s + n_seconds], float)

    def require_trace(self, episode: Episode) -> None:
        """Refuse an episode that OFO's trace does not cover.

        Raises:
            InvalidSettingError: It is shorter, or there is none.
        """
        last = int(episode.start_s + episode.n_steps * episode.dt_ctrl)
        trace = self._trace(episode)
        if last >= len(trace):
            raise InvalidSettingError(
                f"the episode reaches second {last}, but OFO's penalty trace has {len(trace)} seconds"
            )

    def _trace(self, episode: Episode) -> NDArray[np.float64]:
        if episode.record is None:
            raise InvalidSettingError("ofo_baseline needs a record with OFO's penalties")
        return episode.record.ofo_voltage_pen_per_step
