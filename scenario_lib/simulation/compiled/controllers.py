"""The controllers of a scenario: tuning, fits and starting point, as openg2g's constructors make them."""

import math

import numpy as np
from mlenergy.data.modeling import LogisticModel

from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.datacenter_tables import DatacenterTables
from scenario_lib.simulation.compiled.loops import Controllers
from scenario_lib.simulation.compiled.ofo import Floats, Ints, OFOModels, OFOSettings, OFOState
from scenario_lib.simulation.compiled.rule_based import Rules
from scenario_lib.simulation.policies import rule_based_config, rule_zone


def build_ofo(
    scenario: Scenario, experiment: Experiment, assets: Assets, tables: DatacenterTables, n_bus_phases: int
) -> Controllers:
    """Controllers before their first step, with the experiment's tuning."""
    tuning = experiment.ofo
    deployed = [model for site in scenario.sites for model in site.models]
    initial = [math.log2(max(model.initial_batch_size, 1)) for model in deployed]
    state = OFOState(
        x=np.array(initial),
        previous_x=np.array(initial),
        latency_dual=np.zeros(len(deployed)),
        under_dual=np.zeros((len(scenario.sites), n_bus_phases)),
        over_dual=np.zeros((len(scenario.sites), n_bus_phases)),
        sensitivity=np.zeros((len(scenario.sites), n_bus_phases, 3)),
    )
    settings = OFOSettings(**{name: getattr(tuning, name) for name in OFOSettings._fields})
    return Controllers(settings, _models([model.label for model in deployed], experiment, assets, tables), state)


def build_rules(
    scenario: Scenario,
    experiment: Experiment,
    tables: DatacenterTables,
    bus_phases: tuple[tuple[str, int], ...],
    zonal: bool,
) -> Rules:
    """Rule-based controllers before their first step; zonal ones look at their sites' zones alone."""
    config = rule_based_config(experiment)
    deployed = [model for site in scenario.sites for model in site.models]
    specs = [experiment.spec(model.label) for model in deployed]
    sizes = [sorted(spec.feasible_batch_sizes) for spec in specs]
    longest = max(map(len, sizes))
    padded = np.array([[*row, *[row[-1]] * (longest - len(row))] for row in sizes], np.int64)
    zones = [_zone(rule_zone(experiment, site.name, zonal), bus_phases) for site in scenario.sites]
    deadlines_s = [float(spec.itl_deadline_s) if config.latency_guard else math.inf for spec in specs]
    return Rules(
        step_size=config.step_size,
        v_min=config.v_min,
        v_max=config.v_max,
        deadband=config.deadband,
        zone_start=np.cumsum([0, *map(len, zones)]),
        zone_member=np.concatenate(zones),
        batch_sizes=padded,
        level=np.array(
            [np.searchsorted(have, want) for have, want in zip(tables.batch_sizes, padded, strict=True)], np.int64
        ),
        n_sizes=np.array([len(row) for row in sizes], np.int64),
        lowest_x=np.array([math.log2(row[0]) for row in sizes]),
        highest_x=np.array([math.log2(row[-1]) for row in sizes]),
        itl_deadline_s=np.array(deadlines_s),
        x=np.array([math.log2(model.initial_batch_size) for model in deployed]),
    )


def _zone(buses: tuple[str, ...] | None, bus_phases: tuple[tuple[str, int], ...]) -> Ints:
    """Positions of a zone's bus-phases, all for None."""
    zone = None if buses is None else {bus.lower() for bus in buses}
    return np.array([i for i, (bus, _) in enumerate(bus_phases) if zone is None or bus.lower() in zone], np.int64)


def _models(labels: list[str], experiment: Experiment, assets: Assets, tables: DatacenterTables) -> OFOModels:
    fits = assets.logistic
    largest = [int(sizes.max()) for sizes in tables.batch_sizes]
    return OFOModels(
        power=_fits([fits.power(label) for label in labels]),
        latency=_fits([fits.latency(label) for label in labels]),
        throughput=_fits([fits.throughput(label) for label in labels]),
        throughput_max=np.array(
            [_usable(fits.throughput(label).eval(batch)) for label, batch in zip(labels, largest, strict=True)]
        ),
        itl_deadline_s=np.array([float(experiment.spec(label).itl_deadline_s) for label in labels]),
        batch_sizes=tables.batch_sizes,
        n_levels=tables.n_levels,
        lowest_x=np.array([math.log2(int(sizes.min())) for sizes in tables.batch_sizes]),
        highest_x=np.array([math.log2(batch) for batch in largest]),
    )


def _fits(fits: list[LogisticModel]) -> Floats:
    return np.array([(float(fit.L), float(fit.x0), float(fit.k)) for fit in fits])


def _usable(throughput: float) -> float:
    """openg2g's rule: a throughput that is no positive number counts as 1."""
    return throughput if math.isfinite(throughput) and throughput > 0 else 1.0
