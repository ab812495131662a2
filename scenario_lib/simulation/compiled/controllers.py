"""Voltage sensitivity to one datacenter's power, by the same sequence of solutions as openg2g's estimate.

Each perturbation is a text edit in OpenDSS: powers are rounded to the six decimals of the text, and Y is rebuilt
with every load's admittance at its present power. The state left behind is the one that OFO then reads.

openg2g's Online Feedback Optimization of batch sizes, as kernels.

A primal-dual method in x = log2(batch size): duals rise with voltage violations and late tokens, and x descends the
Lagrangian. One controller per site; each has its own duals and its own sensitivity.

openg2g's rule-based controller of batch sizes, as a kernel: the worst violation moves log2(batch size) against it.

Undervoltage comes before overvoltage. One controller per site, which looks at its zone alone if it has one.

The controllers of a scenario: tuning, fits and starting point, as openg2g's constructors make them.
"""

import math
from typing import NamedTuple

import numpy as np
from mlenergy.data.modeling import LogisticModel

from scenario_lib._arrays import Floats, Ints
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.datacenter import DatacenterTables
from scenario_lib.simulation.compiled.jit import inlined_kernel, kernel
from scenario_lib.simulation.compiled.power_flow import (
    W_PER_KW,
    GridState,
    Network,
    Tolerance,
    distances_outside,
    rebuild_admittance,
    record_voltages,
    solve_power_flow,
)
from scenario_lib.simulation.opendss.datacenters import rule_based_config, rule_zone

_TEXT_DECIMALS = 1e6


@kernel
def _as_text_va(kw: float, kvar: float) -> complex:
    """Power as six decimals of kW and kvar hold it."""
    rounded_kw = np.rint(kw * _TEXT_DECIMALS) / _TEXT_DECIMALS
    rounded_kvar = np.rint(kvar * _TEXT_DECIMALS) / _TEXT_DECIMALS
    return complex(rounded_kw * W_PER_KW, rounded_kvar * W_PER_KW)


@kernel
def estimate_sensitivity(
    network: Network, state: GridState, site: int, step_va: complex, tolerance: Tolerance, out: Floats
) -> bool:
    """Estimate dV/dP of the recorded bus-phases (pu per kW) into `out`, shape (N, 3).

    Args:
        site: Datacenter whose three phases are perturbed, one after another.
        step_va: Perturbation, reactive power included.

    Returns:
        False if one of the solutions did not converge.
    """
    if not solve_power_flow(network, state, tolerance):
        return False
    before = np.empty(out.shape[0])
    record_voltages(network, state, before)
    first = network.fixed_power_va.size + 3 * site
    kva = state.power_va[first : first + 3] / W_PER_KW
    step = step_va / W_PER_KW
    for phase in range(3):
        kw, kvar = kva[phase].real, kva[phase].imag
        state.power_va[first + phase] = _as_text_va(kw + step.real, kvar + step.imag)
        rebuild_admittance(network, state)
        if not solve_power_flow(network, state, tolerance):
            return False
        after = np.empty(out.shape[0])
        record_voltages(network, state, after)
        for i in range(out.shape[0]):
            out[i, phase] = (after[i] - before[i]) / step.real
        state.power_va[first + phase] = _as_text_va(kw, kvar)
    rebuild_admittance(network, state)
    return bool(solve_power_flow(network, state, tolerance))


class OFOSettings(NamedTuple):
    """Tuning; the names are those of openg2g's `OFOConfig`."""

    primal_step_size: float
    w_throughput: float
    w_switch: float
    voltage_gradient_scale: float
    v_min: float
    v_max: float
    voltage_dual_step_size: float
    latency_dual_step_size: float
    sensitivity_update_interval: int
    sensitivity_perturbation_kw: float


class OFOModels(NamedTuple):
    """What the controller knows of the M deployed models.

    Attributes:
        power, latency, throughput: Logistic fits (L, x0, k) over log2(batch size), shape (M, 3); power in W.
        throughput_max: Throughput at the site's largest batch size, shape (M,).
        itl_deadline_s: Shape (M,).
        batch_sizes: Feasible sizes of each model's site, rising, shape (M, L).
        n_levels: How many of them, shape (M,).
        lowest_x, highest_x: log2 of the first and last of them, shape (M,).
    """

    power: Floats
    latency: Floats
    throughput: Floats
    throughput_max: Floats
    itl_deadline_s: Floats
    batch_sizes: Ints
    n_levels: Ints
    lowest_x: Floats
    highest_x: Floats


class OFOState(NamedTuple):
    """What the controllers remember; S sites, M models, N bus-phases.

    Attributes:
        x, previous_x: log2 of the continuous batch size, and that of the step before, shape (M,).
        latency_dual: Shape (M,).
        under_dual, over_dual: Shape (S, N).
        sensitivity: dV/dP (pu per kW), shape (S, N, 3).
    """

    x: Floats
    previous_x: Floats
    latency_dual: Floats
    under_dual: Floats
    over_dual: Floats
    sensitivity: Floats


@inlined_kernel
def update_voltage_duals(
    settings: OFOSettings, state: OFOState, site: int, voltages_pu: Floats
) -> tuple[float, float, float]:
    """Raise or lower a site's voltage duals by voltages of shape (N,).

    Returns:
        For each phase, the sum over bus-phases of dual difference times sensitivity (pu per kW).
    """
    under, over, sensitivity = state.under_dual[site], state.over_dual[site], state.sensitivity[site]
    a, b, c = 0.0, 0.0, 0.0
    if _raise_or_lower(under, over, voltages_pu, settings.voltage_dual_step_size, settings.v_min, settings.v_max):
        for i in range(voltages_pu.size):
            difference = over[i] - under[i]
            if difference != 0.0:
                a += difference * sensitivity[i, 0]
                b += difference * sensitivity[i, 1]
                c += difference * sensitivity[i, 2]
    return a, b, c


@inlined_kernel
def _raise_or_lower(under, over, voltages_pu, rho, v_min, v_max):  # type: ignore[no-untyped-def]
    """One step of both duals; how many are not zero. Without branches, so that several are done at a time.

    Args:
        under, over: Duals of a site, changed in place, shape (N,).
        voltages_pu: Shape (N,).
        rho: Step per violation (1/pu).
        v_min, v_max: The limits (pu). Not cut off at 0: inside them a dual falls.
    """
    raised = 0
    for i in range(voltages_pu.size):
        below = under[i] + rho * (v_min - voltages_pu[i])
        above = over[i] + rho * (voltages_pu[i] - v_max)
        under[i] = below if below > 0.0 else 0.0
        over[i] = above if above > 0.0 else 0.0
        raised += (below > 0.0) | (above > 0.0)
    return raised


@inlined_kernel
def _slope(scale: float, x0: float, k: float, x: float) -> float:
    """Derivative by x = log2(batch size) of the logistic curve b0 + scale / (1 + exp(-k (x - x0))), per doubling."""
    argument = k * (x - x0)
    decay = np.exp(-abs(argument))
    share = (1.0 if argument >= 0 else decay) / (1.0 + decay)
    return float(scale * (k * share * (1.0 - share)))


@inlined_kernel
def primal_step(settings, models, state, voltage_gradient, itl_s, replicas, levels):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Update every model's latency dual, move its x against its gradient, and put the level of the nearest batch size
    into `levels`.

    Args:
        voltage_gradient: Dual difference times sensitivity times phase share, shape (M,).
        itl_s: Observed latency, NaN without replicas, which leaves the dual as it is; shape (M,).
        replicas: Active replicas, shape (M,).
    """
    xs, previous_xs, duals = state.x, state.previous_x, state.latency_dual
    power, latency, throughput = models.power, models.latency, models.throughput
    for model in range(xs.size):
        x, count = xs[model], float(replicas[model])
        dual = duals[model]
        if np.isfinite(itl_s[model]):
            dual += settings.latency_dual_step_size * (itl_s[model] - models.itl_deadline_s[model])
        duals[model] = dual = max(dual, 0.0)
        slope = _slope(throughput[model, 0], throughput[model, 1], throughput[model, 2], x)
        gradient = -settings.w_throughput * (count * (slope / models.throughput_max[model]))
        slope = _slope(power[model, 0], power[model, 1], power[model, 2], x)
        gradient += settings.voltage_gradient_scale * voltage_gradient[model] * (count * (slope / 1000.0))
        gradient += dual * _slope(latency[model, 0], latency[model, 1], latency[model, 2], x)
        gradient += settings.w_switch * (x - previous_xs[model])
        previous_xs[model] = x
        x = min(max(x - settings.primal_step_size * gradient, models.lowest_x[model]), models.highest_x[model])
        xs[model] = x
        levels[model] = nearest_size(models.batch_sizes[model], models.n_levels[model], 2.0**x)


@kernel
def nearest_size(batch_sizes: Ints, n: int, wanted: float) -> int:
    """Position of the nearest of the first n values of a rising array, the smaller one of two equally near."""
    above = 0
    while above < n and batch_sizes[above] < wanted:
        above += 1
    if above == 0:
        return 0
    if above == n or wanted - batch_sizes[above - 1] <= batch_sizes[above] - wanted:
        return above - 1
    return above


class Controllers(NamedTuple):
    """The OFO controllers of all sites."""

    settings: OFOSettings
    models: OFOModels
    state: OFOState


class RuleBasedTables(NamedTuple):
    """The controllers of all S sites, and what they remember of M models.

    Attributes:
        step_size: Change of log2(batch size) per violation (1/pu).
        v_min, v_max, deadband: Limits, and the largest violation that is ignored (pu).
        zone_start, zone_member: Recorded bus-phases that each site looks at, one site after another, shape (S + 1,)
            and joined.
        batch_sizes: Feasible sizes of each model itself, rising, filled up with the largest, shape (M, F).
        level: Engine level of each, shape (M, F).
        n_sizes: How many a model has, shape (M,).
        lowest_x, highest_x: log2 of the first and last of them, shape (M,).
        itl_deadline_s: Latency beyond which a batch size is not raised; infinite for none. Shape (M,).
        x: log2 of the continuous batch size, moved by each step, shape (M,).
    """

    step_size: float
    v_min: float
    v_max: float
    deadband: float
    zone_start: Ints
    zone_member: Ints
    batch_sizes: Ints
    level: Ints
    n_sizes: Ints
    lowest_x: Floats
    highest_x: Floats
    itl_deadline_s: Floats
    x: Floats


@kernel
def apply_rules(rules: RuleBasedTables, site_of_model: Ints, voltages_pu: Floats, itl_s: Floats, levels: Ints) -> None:
    """Move every model's x and put the level of the nearest of its batch sizes into `levels`, shape (M,).

    Args:
        voltages_pu: Of the recorded bus-phases.
        itl_s: Observed latency, NaN without replicas, shape (M,).
    """
    for model in range(levels.size):
        pressure = _pressure(rules, site_of_model[model], voltages_pu)
        if pressure == 0.0:
            continue
        x, step = rules.x[model], -rules.step_size * pressure
        if step > 0.0 and itl_s[model] > rules.itl_deadline_s[model]:
            step = 0.0
        x = max(rules.lowest_x[model], min(rules.highest_x[model], x + step))
        rules.x[model] = x
        levels[model] = rules.level[model, nearest_size(rules.batch_sizes[model], rules.n_sizes[model], 2.0**x)]


@kernel
def _pressure(rules: RuleBasedTables, site: int, voltages_pu: Floats) -> float:
    """Worst undervoltage in the site's zone, else the worst overvoltage as a negative number, else 0 (pu)."""
    under, over = 0.0, 0.0
    for member in rules.zone_member[rules.zone_start[site] : rules.zone_start[site + 1]]:
        below, above = distances_outside(voltages_pu[member], rules.v_min, rules.v_max)
        under, over = max(under, below), max(over, above)
    if under > rules.deadband:
        return under
    return -over if over > rules.deadband else 0.0


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
) -> RuleBasedTables:
    """Rule-based controllers before their first step; zonal ones look at their sites' zones alone."""
    config = rule_based_config(experiment)
    deployed = [model for site in scenario.sites for model in site.models]
    specs = [experiment.spec(model.label) for model in deployed]
    sizes = [sorted(spec.feasible_batch_sizes) for spec in specs]
    longest = max(map(len, sizes))
    padded = np.array([[*row, *[row[-1]] * (longest - len(row))] for row in sizes], np.int64)
    zones = [_zone(rule_zone(experiment, site.name, zonal), bus_phases) for site in scenario.sites]
    deadlines_s = [float(spec.itl_deadline_s) if config.latency_guard else math.inf for spec in specs]
    return RuleBasedTables(
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
