"""A candidate's two rollouts on openg2g as it is: its coordinator, its datacenter, its voltage dictionary and metrics.

Only the scenario's PV systems and loads are attached as in the reference engine, so that both simulate the same hour.
"""

from openg2g.coordinator import Coordinator
from openg2g.datacenter.offline import OfflineDatacenter
from openg2g.grid.opendss import OpenDSSGrid
from openg2g.metrics.voltage import compute_allbus_voltage_stats

from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.opendss.grid import ScenarioGrid
from scenario_lib.simulation.opendss.openg2g_internals import ScenarioDatacenter
from scenario_lib.simulation.rollout import build_simulation


class PlainGrid(ScenarioGrid):
    """The scenario's feeder with openg2g's own dictionary of bus voltages at every step."""

    _snapshot_bus_voltages = OpenDSSGrid._snapshot_bus_voltages


class PlainDatacenter(ScenarioDatacenter):
    """openg2g's datacenter with its own server pool, which allocates anew every second."""

    _build_server_pool = OfflineDatacenter._build_server_pool


def plain_integral_pu_s(scenario: Scenario, experiment: Experiment, assets: Assets, policy: str) -> float:
    """Integral violation (pu s) of one rollout, as openg2g computes it."""
    simulation = build_simulation(scenario, experiment, assets, policy)
    simulation.grid.__class__ = PlainGrid
    for datacenter in simulation.datacenters.values():
        datacenter.__class__ = PlainDatacenter
    coordinator = Coordinator(
        datacenters=list(simulation.datacenters.values()),
        grid=simulation.grid,
        controllers=simulation.controllers,
        total_duration_s=DURATION_S,
    )
    log = coordinator.run()
    stats = compute_allbus_voltage_stats(log.grid_states, exclude_buses=experiment.feeder.exclude_buses)
    return float(stats.integral_violation_pu_s)
