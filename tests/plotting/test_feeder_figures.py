"""Maps of feeders."""

from itertools import combinations

import pytest
from rollout_samples import sample_rollout

from scenario_lib.errors import MissingDataError
from scenario_lib.feeders.experiment import Experiment, VoltageLimits
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.plotting.feeder import plot_feeder, worst_voltages


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_an_experiment_shows_its_zones_and_what_stands_where() -> None:
    figure = plot_feeder(load_experiment("ieee123"))
    zones = ["zone z1_sw", "zone z2_nw", "zone z3_se", "zone z4_ne"]
    assert labels(figure) == [*zones, "datacenter", "PV system", "time-varying load"]
    assert len(figure.axes[0].collections[0].get_segments()) > 120


def test_a_feeder_alone_shows_its_buses() -> None:
    figure = plot_feeder(load_experiment("ieee13").feeder)
    assert {text.get_text() for text in figure.axes[0].texts} >= {"650", "671", "680"}
    assert figure.axes[0].get_legend() is None


@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_names_do_not_lie_on_each_other(system: str) -> None:
    experiment = load_experiment(system)
    figure = plot_feeder(experiment, {"650": 0.94})
    figure.canvas.draw()
    boxes = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    assert {site.bus for site in experiment.sites} <= boxes.keys()
    overlapping = [(a, b) for a, b in combinations(boxes, 2) if boxes[a].padded(-1).overlaps(boxes[b].padded(-1))]
    assert overlapping == []


def test_buses_outside_the_limits_get_a_ring() -> None:
    experiment = load_experiment("ieee13")
    figure = plot_feeder(experiment, {"671": 0.94, "632": 1.0, "680": 1.06})
    ring = next(c for c in figure.axes[0].collections if c.get_label() == "outside 0.95 to 1.05 pu")
    assert len(ring.get_offsets()) == 2
    within = plot_feeder(experiment, {"671": 0.94}, VoltageLimits(0.9, 1.1))
    assert "outside 0.9 to 1.1 pu" not in labels(within)


def test_the_worst_voltage_of_a_bus_is_over_all_its_phases_and_seconds() -> None:
    assert worst_voltages(sample_rollout()) == {"near": 1.0, "Far": 0.90}


def test_a_feeder_without_coordinates_is_refused(village: Experiment) -> None:
    with pytest.raises(MissingDataError, match=r"village\.dss: its buses have no coordinates.*bus_coordinates\.csv"):
        plot_feeder(village)
