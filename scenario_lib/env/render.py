"""A picture of an episode so far: the voltage envelope with its limits, and the batch sizes."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.reward import RewardConfig
from scenario_lib.feeders.feeder import Limits


@dataclass(slots=True)
class EpisodeHistory:
    """What a picture needs of the steps so far."""

    time_s: list[float] = field(default_factory=list)
    lowest_pu: list[float] = field(default_factory=list)
    highest_pu: list[float] = field(default_factory=list)
    batch_sizes: list[dict[str, int]] = field(default_factory=list)

    def add(self, time_s: float, voltages_pu: NDArray[np.float64], batch_sizes: dict[str, int]) -> None:
        """One more second."""
        self.time_s.append(time_s)
        self.lowest_pu.append(float(voltages_pu.min()))
        self.highest_pu.append(float(voltages_pu.max()))
        self.batch_sizes.append(dict(batch_sizes))


def render_episode(history: EpisodeHistory, limits: RewardConfig, title: str) -> NDArray[np.uint8]:
    """The picture as an RGB array, shape (height, width, 3).

    Raises:
        MissingExtraError: matplotlib (the extra `plot`) is not installed.
    """
    from scenario_lib.plotting.episode import draw_episode

    labels = history.batch_sizes[0] if history.batch_sizes else ()
    batches = {label: [sizes[label] for sizes in history.batch_sizes] for label in labels}
    envelope = (np.array(history.time_s), np.array(history.lowest_pu), np.array(history.highest_pu))
    return draw_episode(envelope, batches, Limits(limits.v_min, limits.v_max), title)
