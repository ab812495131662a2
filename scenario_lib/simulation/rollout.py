"""One rollout: a scenario under a policy, second by second, as arrays.

This is the reference engine: openg2g's datacenter and controllers on OpenDSS, assembled here and nowhere else.

Who draws a site's power: the facility, each model, the training job. Made for pictures, not for measures.

A rollout records the power of each site as a whole. The facility's share and the training job's are exact; a model's
is its mean power per GPU at the batch size in use times the GPUs in use, which leaves out how servers scatter. With
hundreds of servers that is within a few per cent of the site's power at every second.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from openg2g.coordinator import Coordinator

from scenario_lib._arrays import Floats
from scenario_lib._html_table import html_table
from scenario_lib._values import as_whole_number, instance_of, require_count
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.feeders.experiment_file import as_experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.controller import ControllerPolicy
from scenario_lib.simulation.opendss.datacenters import (
    Controller,
    ControlPolicy,
    Policy,
    as_policy,
    build_controllers,
    build_datacenters,
    policy_name,
    training_schedule,
)
from scenario_lib.simulation.opendss.engine import opendss_held
from scenario_lib.simulation.opendss.grid import ScenarioGrid
from scenario_lib.simulation.opendss.openg2g_internals import ScenarioDatacenter


@dataclass(frozen=True, slots=True, repr=False)
class Rollout:
    """One simulated rollout; T seconds, N bus-phases, S sites, M deployed models.

    Attributes:
        policy: Who set batch sizes.
        bus_phases: The N (bus, phase) pairs that voltages are of; excluded buses are not among them.
        site_names: The S sites, in the scenario's order.
        model_labels: The M (site, model label) pairs, site by site.
        voltages_pu: Shape (T, N).
        power_w: Power of each site and phase (W), shape (T, S, 3).
        batch_sizes: Batch size in use, shape (T, M).
        active_replicas: Replicas of whole servers in use, shape (T, M).
        itl_s: Observed inter-token latency (s), shape (T, M); NaN where no replica runs.
    """

    policy: str
    bus_phases: tuple[tuple[str, int], ...]
    site_names: tuple[str, ...]
    model_labels: tuple[tuple[str, str], ...]
    voltages_pu: Floats
    power_w: Floats
    batch_sizes: NDArray[np.int64]
    active_replicas: NDArray[np.int64]
    itl_s: Floats

    def __repr__(self) -> str:
        seconds, n_bus_phases = self.voltages_pu.shape
        sites = ", ".join(self.site_names)
        return f"Rollout(policy {self.policy}: {seconds} s of {n_bus_phases} bus-phases, sites {sites})"

    def _repr_html_(self) -> str:
        """The rollout as a table in a notebook."""
        seconds, n_bus_phases = self.voltages_pu.shape
        facts = {
            "seconds": seconds,
            "bus-phases": n_bus_phases,
            "sites": ", ".join(self.site_names),
            "models": ", ".join(label for _, label in self.model_labels),
            "voltages": f"{self.voltages_pu.min():.4f} to {self.voltages_pu.max():.4f} pu",
            "mean power": f"{self.power_w.sum(axis=(1, 2)).mean() / 1e3:,.0f} kW",
            "batch sizes": f"{self.batch_sizes.min()} to {self.batch_sizes.max()}",
        }
        return html_table(f"Rollout, policy {self.policy}", facts)


@dataclass(frozen=True, slots=True)
class Simulation:
    """openg2g's parts of one rollout, assembled and not yet started."""

    datacenters: dict[str, ScenarioDatacenter]
    grid: ScenarioGrid
    controllers: Sequence[Controller]


def build_simulation(
    scenario: Scenario, experiment: Experiment, assets: Assets, policy: Policy = "none", n_steps: int = DURATION_S
) -> Simulation:
    """Assemble datacenters, grid and controllers of one rollout."""
    datacenters = build_datacenters(scenario, experiment, assets)
    grid = ScenarioGrid(experiment.feeder, scenario, n_steps)
    for site in scenario.sites:
        grid.attach_dc(
            datacenters[site.name],
            bus=site.bus,
            connection_type=site.connection_type,
            power_factor=experiment.datacenter.power_factor,
        )
    known = as_policy(policy)
    makes = known.bound(scenario, experiment, n_steps) if isinstance(known, ControllerPolicy) else known
    controllers = build_controllers(makes, scenario.sites, datacenters, grid, experiment, assets)
    return Simulation(datacenters, grid, controllers)


def require_fits(scenario: Scenario, experiment: Experiment) -> None:
    """Refuse a scenario of another feeder, where buses would be made up or be missing."""
    drawn = [(site.name, site.bus) for site in scenario.sites]
    stands = [(site.name, site.bus) for site in experiment.sites]
    if drawn != stands:
        raise InvalidSettingError(
            f"the scenario has datacenter sites {drawn}, the experiment on {experiment.name} has {stands}; is the "
            f"library one of another feeder?"
        )


def run_reference(
    scenario: Scenario,
    experiment: Experiment | str | Path,
    assets: Assets,
    policy: Policy = "none",
    n_steps: int = DURATION_S,
) -> Rollout:
    """Simulate a scenario under a policy for `n_steps` seconds; other threads wait for OpenDSS until it is done.

    Args:
        scenario: As `randomize_scenario` draws it or a library's `materialize` returns it.
        experiment: What it is a variation of: an experiment, or what `load_experiment` takes.
        assets: As `load_assets` returns them.
        policy: One of `POLICIES` by name, a controller (a function of `Now`), or a trained policy.
        n_steps: Seconds.

    Raises:
        InvalidSettingError: An argument of another type, no seconds, or a scenario of another feeder.
        PowerFlowError: OpenDSS did not converge; the error has the second.
        UnknownNameError: No policy of that name.
        ValueError, RuntimeError: From openg2g, where a drawn ramp needs more GPUs than its site has.
    """
    known, whole = checked_arguments(scenario, experiment, assets, policy, n_steps)
    with opendss_held():
        return _run(build_simulation(scenario, whole, assets, known, n_steps), known, n_steps)


def checked_arguments(
    scenario: Scenario, experiment: Experiment | str | Path, assets: Assets, policy: Policy, n_steps: int
) -> tuple[str | ControlPolicy | ControllerPolicy, Experiment]:
    """What a rollout is given, refused by name where it cannot be meant; the policy and the experiment as such."""
    instance_of(Scenario, hint=" as randomize_scenario draws it")("scenario", scenario)
    instance_of(Assets, hint=" as load_assets returns it")("assets", assets)
    whole = as_experiment("experiment", experiment)
    require_count("n_steps", as_whole_number("n_steps", n_steps), 1)
    known = as_policy(policy)
    require_fits(scenario, whole)
    return known, whole


def _run(simulation: Simulation, policy: str | ControlPolicy | ControllerPolicy, n_steps: int) -> Rollout:
    coordinator = Coordinator(
        datacenters=list(simulation.datacenters.values()),
        grid=simulation.grid,
        controllers=simulation.controllers,
        total_duration_s=n_steps,
    )
    return _record(coordinator.run_iter(), simulation, policy_name(policy), n_steps)


def _record(ticks: Iterable[object], simulation: Simulation, policy: str, n_steps: int) -> Rollout:
    grid, datacenters = simulation.grid, simulation.datacenters
    labels = tuple((name, spec.model_label) for name, dc in datacenters.items() for spec in dc.model_specs)
    bus_phases: tuple[tuple[str, int], ...] = ()
    voltages = np.empty((n_steps, 0))
    power = np.empty((n_steps, len(datacenters), 3))
    batches = np.empty((n_steps, len(labels)), dtype=np.int64)
    replicas = np.empty_like(batches)
    latency = np.empty((n_steps, len(labels)))
    for step, _ in enumerate(ticks):
        if step == 0:
            bus_phases = tuple((str(bus), int(phase)) for bus, phase in grid.v_index)
            voltages = np.empty((n_steps, len(bus_phases)))
        voltages[step] = grid.recorded_voltages()
        states = {name: datacenter.state for name, datacenter in datacenters.items()}
        for position, state in enumerate(states.values()):
            power[step, position] = state.power_w.a, state.power_w.b, state.power_w.c
        for column, (name, label) in enumerate(labels):
            batches[step, column] = states[name].batch_size_by_model[label]
            replicas[step, column] = states[name].active_replicas_by_model[label]
            latency[step, column] = states[name].observed_itl_s_by_model[label]
    return Rollout(policy, bus_phases, tuple(datacenters), labels, voltages, power, batches, replicas, latency)


_KW_PER_W = 1e-3
_PHASES = 3


@dataclass(frozen=True, slots=True)
class PowerShares:
    """Power of one site by what draws it (kW, all phases together), each of shape (T,)."""

    facility_kw: Floats
    model_kw: dict[str, Floats]
    training_kw: Floats
    total_kw: Floats


def power_shares(
    rollout: Rollout, scenario: Scenario, experiment: Experiment, assets: Assets
) -> dict[str, PowerShares]:
    """Shares of every site of a rollout, by site name in the scenario's order."""
    seconds = len(rollout.power_w)
    training_kw = _training_kw(scenario, assets, seconds)
    shares = {}
    for position, site in enumerate(scenario.sites):
        columns = [i for i, (name, _) in enumerate(rollout.model_labels) if name == site.name]
        shares[site.name] = PowerShares(
            facility_kw=np.full(seconds, site.base_kw_per_phase * _PHASES),
            model_kw={rollout.model_labels[i][1]: _model_kw(rollout, i, experiment, assets) for i in columns},
            training_kw=training_kw if position == 0 else np.zeros(seconds),
            total_kw=rollout.power_w[:, position].sum(axis=1) * _KW_PER_W,
        )
    return shares


def _model_kw(rollout: Rollout, column: int, experiment: Experiment, assets: Assets) -> Floats:
    label = rollout.model_labels[column][1]
    batches, level = np.unique(rollout.batch_sizes[:, column], return_inverse=True)
    templates = assets.inference.power_templates
    w_per_gpu = np.array([float(np.mean(templates.template(label, int(batch)))) for batch in batches])[level]
    gpus = rollout.active_replicas[:, column] * experiment.spec(label).gpus_per_replica
    return np.asarray(w_per_gpu * gpus * _KW_PER_W)


def _training_kw(scenario: Scenario, assets: Assets, seconds: int) -> Floats:
    total_w = np.zeros(seconds)
    for run, t_start_s, t_end_s in training_schedule(scenario.training_run, assets):
        total_w += [run.eval_power(float(second), t_start_s, t_end_s) for second in range(seconds)]
    return total_w * _KW_PER_W
