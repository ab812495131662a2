"""A picture of an episode so far: the voltage envelope with its limits, and the batch sizes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats
from scenario_lib.env.reward import RewardConfig
from scenario_lib.feeders.experiment import VoltageLimits


@dataclass(slots=True)
class EpisodeHistory:
    """What a picture needs of the steps so far.

    Attributes:
        scenario: Seed of the played record; None without one.
    """

    scenario: int | None = None
    time_s: list[float] = field(default_factory=list)
    lowest_pu: list[float] = field(default_factory=list)
    highest_pu: list[float] = field(default_factory=list)
    batch_sizes: list[dict[str, int]] = field(default_factory=list)

    def add(self, time_s: float, voltages_pu: Floats, batch_sizes: dict[str, int]) -> None:
        """One more second."""
        self.time_s.append(time_s)
        self.lowest_pu.append(float(voltages_pu.min()))
        self.highest_pu.append(float(voltages_pu.max()))
        self.batch_sizes.append(dict(batch_sizes))


class VectorHistory:
    """What pictures of N episodes side by side need.

    Args:
        labels: Observed models.
    """

    def __init__(self, n: int, labels: Sequence[str]) -> None:
        self._labels = labels
        self._histories = [EpisodeHistory() for _ in range(n)]

    def begin(self, i: int, scenario: int | None) -> None:
        """A new episode in slot i."""
        self._histories[i] = EpisodeHistory(scenario)

    def add(self, slots: Iterable[int], time_s: Floats, voltages_pu: Floats, batch_sizes: NDArray[np.int64]) -> None:
        """One more second of some slots; arrays have a row for each of the N."""
        for i in slots:
            sizes = dict(zip(self._labels, batch_sizes[i].tolist(), strict=True))
            self._histories[i].add(float(time_s[i]), voltages_pu[i], sizes)

    def pictures(self, limits: RewardConfig) -> tuple[NDArray[np.uint8], ...]:
        """One picture per slot."""
        return tuple(render_episode(history, limits) for history in self._histories)


def render_episode(history: EpisodeHistory, limits: RewardConfig) -> NDArray[np.uint8]:
    """The picture as an RGB array, shape (height, width, 3).

    Raises:
        MissingExtraError: matplotlib (the extra `plot`) is not installed.
    """
    from scenario_lib.plotting.hour import draw_episode

    labels = history.batch_sizes[0] if history.batch_sizes else ()
    batches = {label: [sizes[label] for sizes in history.batch_sizes] for label in labels}
    title = f"scenario {'-' if history.scenario is None else history.scenario}"
    envelope = (np.array(history.time_s), np.array(history.lowest_pu), np.array(history.highest_pu))
    return draw_episode(envelope, batches, VoltageLimits(limits.v_min, limits.v_max), title)
