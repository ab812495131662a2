"""Figures as files: equal figures are equal bytes, in any settings, at any time."""

import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
from rollout_samples import sample_rollout

from scenario_lib.plotting.hour import plot_rollout
from scenario_lib.plotting.panels import house_style, new_figure, png_bytes, svg_bytes


def test_equal_figures_are_equal_bytes_whatever_the_users_settings() -> None:
    svg, png = svg_bytes(plot_rollout(sample_rollout())), png_bytes(plot_rollout(sample_rollout()))
    with matplotlib.rc_context({"svg.hashsalt": "another", "font.size": 4, "savefig.dpi": 30, "svg.fonttype": "none"}):
        assert svg_bytes(plot_rollout(sample_rollout())) == svg
        assert png_bytes(plot_rollout(sample_rollout())) == png


def test_a_notebook_shows_a_figure() -> None:
    assert plot_rollout(sample_rollout(seconds=5))._repr_png_().startswith(b"\x89PNG")


def test_an_svg_holds_no_date_no_program_and_no_long_numbers() -> None:
    svg = svg_bytes(plot_rollout(sample_rollout()))
    assert b"<dc:date>" not in svg
    assert b"Matplotlib v" not in svg
    assert len(svg) < 400_000
    ElementTree.fromstring(svg)


def test_shortened_coordinates_stay_within_a_hundredth_of_a_point() -> None:
    with house_style():
        figure = new_figure(2)
        axes = figure.add_subplot()
        axes.plot(np.linspace(0, 1, 7), np.sqrt(np.linspace(0, 1, 7)))
    root = ElementTree.fromstring(svg_bytes(figure))
    paths = [path.get("d") for path in root.iter("{http://www.w3.org/2000/svg}path")]
    curve = next(d for d in paths if d.count("L") == 6 and "Q" not in d and "z" not in d)
    x_points = np.array([number for number in curve.split() if number not in "ML"], float)[::2]
    steps = np.diff(x_points)
    assert np.ptp(steps) <= 0.03
