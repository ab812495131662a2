"""Pictures of rollouts and records: what is on which axes."""

from xml.etree import ElementTree

import numpy as np
import pytest
from rollout_samples import sample_rollout

import scenario_lib
from scenario_lib.feeders.experiment import VoltageLimits
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.plotting.hour import plot_rollout, zone_columns
from scenario_lib.plotting.panels import svg_bytes


def titles(figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def labels(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_rollout_without_zones() -> None:
    figure = plot_rollout(sample_rollout(), VoltageLimits(0.94, 1.06))
    assert titles(figure) == [
        "all buses: lowest and highest voltage",
        "batch sizes under OFO",
        "datacenter power, all phases",
    ]
    voltage, batch, power = figure.axes
    lowest = voltage.get_lines()[0].get_ydata()
    assert lowest.min() == 0.90
    assert {line.get_ydata()[0] for line in voltage.get_lines()} >= {0.94, 1.06}
    assert labels(batch) == ["small", "large"]
    assert labels(power) == ["site hall"]
    assert np.allclose(power.get_lines()[0].get_ydata(), 3000.0)


def test_one_panel_a_zone_and_one_for_what_is_outside_them() -> None:
    rollout = sample_rollout(policy="mine", sites=("hall", "annex"))
    assert zone_columns(rollout, {"a": ("far",)}) == {"zone a": [2, 3], "outside zones": [0, 1]}
    assert zone_columns(rollout, {"a": ("far",), "b": ("NEAR",)}) == {"zone a": [2, 3], "zone b": [0, 1]}
    assert zone_columns(rollout, {"a": ("far", "near"), "empty": ()}) == {"zone a": [0, 1, 2, 3]}
    figure = plot_rollout(rollout, zones={"a": ("far",)})
    assert titles(figure)[:2] == ["zone a: lowest and highest voltage", "outside zones: lowest and highest voltage"]
    assert labels(figure.axes[1]) == ["under mine"]
    assert labels(figure.axes[2])[0] == "hall: small"


def test_names_are_text_not_mathematics() -> None:
    figure = plot_rollout(sample_rollout(sites=(r"$\nonsense$",)))
    svg_bytes(figure)
    assert labels(figure.axes[-1]) == [r"site $\nonsense$"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name", ["n" * 200, "電網", "a\x1b[31m\x00b", "--><b>"], ids=["long", "Han", "control", "comment"]
)
def test_figures_survive_any_name_and_keep_their_axes(name: str) -> None:
    figure = plot_rollout(sample_rollout(sites=(name, "other")), zones={name: ("far",)})
    ElementTree.fromstring(svg_bytes(figure))
    for axes in figure.axes:
        assert axes.get_position().width > 0.25
        assert axes.get_position().height > 0.05


def test_a_row_is_as_high_as_its_legend() -> None:
    figure = plot_rollout(sample_rollout(sites=tuple(f"site {i}" for i in range(15))))
    svg_bytes(figure)
    batch = figure.axes[1]
    assert len(labels(batch)) == 30
    legend = batch.get_legend().get_window_extent()
    assert legend.y0 > figure.axes[2].get_window_extent().y1
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in batch.get_lines()}
    assert len(looks) == 30


def test_a_rollout_shorter_than_an_hour() -> None:
    figure = plot_rollout(sample_rollout(seconds=5))
    assert figure.axes[0].get_xlim() == (0, 5)


def test_a_record_with_both_its_rollouts(compiled_library: ScenarioLibrary) -> None:
    record = compiled_library[0]
    figure = scenario_lib.plot_scenario(compiled_library, record)
    voltage, batch, power, weather = figure.axes
    assert labels(voltage) == ["without control", "under OFO"]
    assert len(labels(batch)) == 5
    assert labels(power)[0] == "total without control"
    assert {"facility", "training job", "Llama-3.1-8B"} <= set(labels(power))
    assert labels(weather) == ["PV at bus 675", "load at bus 680"]
    shaded = voltage.patches[0].get_extents().transformed(voltage.transData.inverted())
    assert (shaded.x0, shaded.x1) == pytest.approx((record.t_control_start, record.t_control_end))
