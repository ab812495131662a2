"""Pictures of evaluations."""

import numpy as np

from scenario_lib.plotting.comparison import plot_scenario_integrals, plot_spreads, plot_trade_off
from scenario_lib.plotting.panels import BASELINE, OFO


def test_the_trade_off_has_one_mark_a_control_and_leaves_out_the_unknown() -> None:
    figure = plot_trade_off({"none": 0.0, "ofo": 0.8, "new": np.nan}, {"none": 0.5, "ofo": 0.7, "new": 0.6})
    marks = {c.get_label(): c.get_offsets().tolist() for c in figure.axes[0].collections}
    assert marks == {"none": [[0.5, 0.0]], "ofo": [[0.7, 0.8]]}


def test_scenarios_are_ordered_by_the_first_control_with_failures_last() -> None:
    integrals = {"none": np.array([5.0, np.nan, 1.0]), "ofo": np.array([0.5, 0.2, 0.0])}
    figure = plot_scenario_integrals(integrals, ["a", "b", "c"])
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["c", "a", "b"]
    none, ofo = axes.get_lines()
    assert ofo.get_ydata().tolist() == [0.0, 0.5, 0.2]
    assert (none.get_color(), ofo.get_color()) == (BASELINE.colour, OFO.colour)
    figure.canvas.draw()


def test_boxes_are_drawn_for_what_is_known() -> None:
    figure = plot_spreads({"time (s)": {"none": np.array([1.0, 2.0, 3.0]), "ofo": np.full(3, np.nan)}})
    drawn, spare = figure.axes
    assert not spare.axison
    medians = [line for line in drawn.get_lines() if line.get_linewidth() == 3.0]
    assert [line.get_xdata().tolist() for line in medians] == [[2.0, 2.0]]
    assert [label.get_text() for label in drawn.get_yticklabels()] == ["none", "ofo"]
