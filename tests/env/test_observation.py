"""Layout and values of observations, on grids made up for it."""

from types import SimpleNamespace

import numpy as np
import pytest
from env_objects import V_INDEX, Grid, config, datacenter

from scenario_lib.env.observation import (
    ObservationConfig,
    build_observation,
    compute_bus_phase_groups,
    compute_zone_mask,
    violation_summary,
)
from scenario_lib.errors import InvalidSettingError


def observe(cfg, grid=None, site=None, previous=None):
    site = site or datacenter({"m": 32}, {"m": 0.05}, {"m": 9})
    return build_observation(grid or Grid(), site, cfg, previous or {"m": 16})


def test_full_voltages_summary_and_model():
    out = observe(config())
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, [0.94, 1.0, 1.06, 1.0, 0.01, 0.01, 0.5, 0.5, 0.5, 0.9, 6.0, 0.25], rtol=1e-6)


def test_groups_show_lowest_and_highest_per_bus():
    cfg = config(n_bus_phases=6, bus_phase_groups=compute_bus_phase_groups(V_INDEX))
    np.testing.assert_allclose(observe(cfg)[:6], [0.94, 1.0, 1.06, 1.06, 1.0, 1.0], rtol=1e-6)


def test_a_zone_is_observed_alone_whatever_the_case_of_its_names():
    cfg = config(n_bus_phases=3, zone_buses=("A", "b", "nowhere"))
    out = observe(cfg, Grid(0.94, 1.0, 1.0, 1.2))
    np.testing.assert_allclose(out[:6], [0.94, 1.0, 1.0, 0.01, 0.0, 1 / 3], rtol=1e-5, atol=1e-7)


def test_summaries_per_zone_in_order():
    cfg = config(n_bus_phases=0, zone_summary={"east": ("b",), "west": ("A",), "empty": ("x",)})
    np.testing.assert_allclose(observe(cfg)[:9], [0.0, 0.01, 1.0, 0.01, 0.0, 0.5, 0.0, 0.0, 0.0], rtol=1e-5, atol=1e-7)
    assert (cfg.n_zone_summary_slots, cfg.obs_dim) == (9, 14)


def test_nothing_but_a_summary():
    assert observe(config(n_bus_phases=0)).shape == (8,)


@pytest.mark.parametrize(
    ("latency", "shown"),
    [({}, 0.0), ({"m": float("nan")}, 0.0), ({"m": float("inf")}, 0.0), ({"m": 0.2}, 2.0), ({"m": 9.0}, 3.0)],
)
def test_latency_over_its_deadline(latency, shown):
    out = observe(config(n_bus_phases=0), site=datacenter({"m": 32}, latency))
    assert out[4] == pytest.approx(shown)


def test_replicas_and_changes_at_their_edges():
    cfg = config(n_bus_phases=0, max_replicas={})
    out = observe(cfg, site=datacenter({"m": 128}, replicas={"m": 3}), previous={"m": 2})
    assert out[5] == 3.0
    assert out[7] == 1.0
    assert observe(cfg, site=datacenter({"m": 8}), previous={"other": 2})[[5, 7]].tolist() == [0.0, 0.0]


def test_one_feasible_size_has_no_span():
    cfg = config(n_bus_phases=0, feasible_batch_sizes={"m": (32,)})
    assert observe(cfg, previous={"m": 32})[[3, 7]].tolist() == [0.0, 0.0]


def test_several_sites_add_their_power():
    cfg = config(
        n_bus_phases=0,
        model_labels=("m", "n"),
        feasible_batch_sizes={"m": (8, 16), "n": (8, 16)},
        itl_deadlines={"m": 0.1, "n": 0.1},
    )
    sites = [datacenter({"m": 8}), datacenter({"n": 16}, power_w=(5e5, 0.0, 0.0))]
    out = build_observation(Grid(), sites, cfg, {"m": 8, "n": 16})
    assert out[[6, 11]].tolist() == [6.5, 6.5]
    assert out[[3, 8]].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_bus_phases": 5}, "n_bus_phases is 5; the grid has 4 bus-phases"),
        ({"n_bus_phases": 4, "zone_buses": ("a",)}, "n_bus_phases is 4; the grid has 2 bus-phases"),
        ({"n_bus_phases": 2, "bus_phase_groups": ((0, 4),)}, "an index is beyond the grid's 4 bus-phases"),
    ],
)
def test_another_grid_is_refused(changes, message):
    with pytest.raises(InvalidSettingError, match=message):
        observe(config(**changes))


def test_groups_and_slots_must_agree():
    with pytest.raises(InvalidSettingError, match="n_bus_phases is 3; expected 4, two per bus"):
        config(n_bus_phases=3, bus_phase_groups=((0,), (1,)))


def test_helpers():
    assert compute_bus_phase_groups(V_INDEX) == ((0, 1), (2,), (3,))
    assert compute_zone_mask(V_INDEX, ["A", "C"]).tolist() == [True, True, False, True]
    assert violation_summary(np.zeros(0), 0.95, 1.05).tolist() == [0.0, 0.0, 0.0]
    assert violation_summary(np.array([0.95, 1.05]), 0.95, 1.05).tolist() == [0.0, 0.0, 0.0]
    assert config().get_initial_batch("m") == 32
    assert config(initial_batch_sizes={"m": 8}).get_initial_batch("m") == 8


def spec(label, name="label"):
    return SimpleNamespace(**{name: label}, feasible_batch_sizes=[8, 16], itl_deadline_s=0.2)


def test_configurations_from_specifications_of_either_kind():
    one = ObservationConfig.from_model_specs([spec("m"), spec("n", "model_label")], {"m": 3}, 4, {"m": 8})
    assert one.model_labels == ("m", "n")
    assert one.feasible_batch_sizes == {"m": (8, 16), "n": (8, 16)}
    assert one.max_replicas == {"m": 3, "n": 1}
    assert one.obs_dim == 4 + 3 + 10
    several = ObservationConfig.from_multi_site(
        {"east": [spec("m")], "west": [spec("n")]}, {"east": {"m": 2}, "west": {"n": 5}}, 0, zone_summary={"z": ["a"]}
    )
    assert several.model_labels == ("m", "n")
    assert several.max_replicas == {"m": 2, "n": 5}
    assert several.zone_summary == {"z": ("a",)}


def test_one_label_at_two_sites_is_refused():
    with pytest.raises(InvalidSettingError, match="one stands at two sites"):
        ObservationConfig.from_multi_site({"east": [spec("m")], "west": [spec("m")]}, {}, 0)
