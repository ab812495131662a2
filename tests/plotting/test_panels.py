"""Panels over the hour: bins that lose no extreme, limits that stay visible, batches on powers of two."""

import numpy as np
from matplotlib.figure import Figure

from scenario_lib.feeders.experiment import VoltageLimits
from scenario_lib.plotting.panels import Look, binned_mean, bins, draw_batches, draw_limits, draw_stack, envelope


def test_no_extreme_is_lost_by_the_bins() -> None:
    voltages = np.ones((3600, 3))
    voltages[1234, 1], voltages[3599, 2] = 0.9, 1.1
    times_s, lowest, highest = envelope(voltages)
    assert len(times_s) <= 450
    assert (lowest.min(), highest.max()) == (0.9, 1.1)
    assert times_s[np.argmin(lowest)] <= 1234 < times_s[np.argmin(lowest)] + 8
    assert highest[-1] == 1.1


def test_a_short_rollout_is_drawn_second_by_second() -> None:
    assert bins(7).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert envelope(np.ones((1, 2)))[0].tolist() == [0.0]


def test_means_of_bins_are_means_also_of_the_last_one() -> None:
    values = np.arange(1000.0)
    starts = bins(1000)
    assert starts[1] == 3
    means = binned_mean(values)
    assert means[0] == 1.0
    assert means[-1] == values[starts[-1] :].mean()
    assert binned_mean(np.ones((1000, 2, 3))).shape == (len(starts), 2, 3)


def test_all_panels_share_a_scale_that_shows_both_limits_and_all_curves() -> None:
    panels = list(Figure().subplots(1, 2))
    panels[0].plot([0, 1], [0.99, 1.01])
    panels[1].plot([0, 1], [0.80, 1.00])
    draw_limits(panels, VoltageLimits())
    assert panels[0].get_ylim() == panels[1].get_ylim()
    low, high = panels[0].get_ylim()
    assert low < 0.80
    assert high > 1.05


def test_batches_are_on_powers_of_two_and_do_not_hide_each_other() -> None:
    axes = Figure().add_subplot()
    draw_batches(axes, [0, 1], {"a": [8, 128], "b": [8, 128]})
    assert [label.get_text() for label in axes.get_yticklabels()] == ["8", "16", "32", "64", "128"]
    first, second = (line.get_ydata() for line in axes.get_lines())
    assert np.all(first != second)
    assert np.allclose(first, [8, 128], rtol=0.05)


def test_layers_lie_on_each_other() -> None:
    axes = Figure().add_subplot()
    layers = {"low": (np.array([1.0, 2.0]), Look("red"), ""), "high": (np.array([3.0, 3.0]), Look("blue"), "//")}
    draw_stack(axes, np.array([0, 1]), layers)
    low, high = (collection.get_paths()[0].vertices[:, 1] for collection in axes.collections)
    assert (low.min(), low.max()) == (0.0, 2.0)
    assert (high.min(), high.max()) == (1.0, 5.0)
