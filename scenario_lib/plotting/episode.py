"""The picture of an episode so far, as pixels."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from scenario_lib.feeders.feeder import Limits
from scenario_lib.plotting.panels import draw_batches, draw_envelope, draw_limits
from scenario_lib.plotting.style import OFO, house_style
from scenario_lib.scenario.curves import Array

_SIZE_INCHES = (8.0, 4.5)
_DPI = 80


@house_style()
def draw_episode(
    envelope: tuple[Array, Array, Array], batches: Mapping[str, Sequence[int]], limits: Limits, title: str
) -> NDArray[np.uint8]:
    """Voltage envelope and batch sizes, shape (360, 640, 3).

    Args:
        envelope: Times (s), lowest and highest voltage (pu), each of shape (T,).
        batches: Label of each model to its batch sizes, of length T.
        limits: Voltage band.
        title: Text above the picture.
    """
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    voltage, batch = figure.subplots(2, 1, sharex=True)
    draw_envelope(voltage, envelope, limits, OFO, "all bus-phases")
    draw_limits([voltage], limits)
    voltage.set_title(title)
    voltage.set_ylabel("voltage (pu)")
    draw_batches(batch, envelope[0], batches)
    batch.set_xlabel("time (s)")
    if batches:
        batch.legend(fontsize="x-small", ncols=3)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
