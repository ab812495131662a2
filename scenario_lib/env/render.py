"""A picture of an episode so far: the voltage envelope with its limits, and the batch sizes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.reward import RewardConfig

Floats = NDArray[np.float64]

_SIZE_INCHES = (8.0, 4.5)
_DPI = 80


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
        """A new episode in place i."""
        self._histories[i] = EpisodeHistory(scenario)

    def add(self, places: Iterable[int], time_s: Floats, voltages_pu: Floats, batch_sizes: NDArray[np.int64]) -> None:
        """One more second of some places; arrays have a row for each of the N."""
        for i in places:
            sizes = dict(zip(self._labels, batch_sizes[i].tolist(), strict=True))
            self._histories[i].add(float(time_s[i]), voltages_pu[i], sizes)

    def pictures(self, limits: RewardConfig) -> tuple[NDArray[np.uint8], ...]:
        """One picture per place."""
        return tuple(render_episode(history, limits) for history in self._histories)


def render_episode(history: EpisodeHistory, limits: RewardConfig) -> NDArray[np.uint8]:
    """The picture as an RGB array, shape (height, width, 3); needs matplotlib (the extra `plot`)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    voltage, batch = figure.subplots(2, 1, sharex=True)
    voltage.set_title(f"scenario {'-' if history.scenario is None else history.scenario}")
    voltage.fill_between(history.time_s, history.lowest_pu, history.highest_pu, alpha=0.4, label="all bus-phases")
    for limit in (limits.v_min, limits.v_max):
        voltage.axhline(limit, linestyle="--", color="black", linewidth=1)
    voltage.set_ylabel("voltage (pu)")
    _draw_batches(batch, history)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _draw_batches(axes: Any, history: EpisodeHistory) -> None:
    for label in history.batch_sizes[0] if history.batch_sizes else ():
        axes.step(history.time_s, [sizes[label] for sizes in history.batch_sizes], where="post", label=label)
    axes.set_yscale("log", base=2)
    axes.set_ylabel("batch size")
    axes.set_xlabel("time (s)")
    if history.batch_sizes:
        axes.legend(fontsize="x-small", ncols=3)
