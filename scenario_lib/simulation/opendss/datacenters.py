"""The datacenters of one rollout as openg2g objects.

Who sets batch sizes during a rollout: nobody, openg2g's OFO controller, or its rule-based one.
"""

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, runtime_checkable

from openg2g.controller.ofo import OFOBatchSizeController, OFOConfig
from openg2g.controller.rule_based import RuleBasedBatchSizeController, RuleBasedConfig
from openg2g.datacenter.config import (
    DatacenterConfig,
    PowerAugmentationConfig,
    ReplicaSchedule,
    TrainingRun,
    TrainingSchedule,
)
from openg2g.datacenter.offline import OfflineWorkload

from scenario_lib._values import refused
from scenario_lib.errors import UnknownNameError
from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.sites import ModelDeployment, Site
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets, openg2g_spec
from scenario_lib.simulation.controller import CONTROLLERS, ControllerPolicy, as_controller_policy
from scenario_lib.simulation.controller import Controller as ControllerFunction
from scenario_lib.simulation.opendss.grid import ScenarioGrid
from scenario_lib.simulation.opendss.openg2g_internals import ScenarioDatacenter


def build_datacenters(
    scenario: Scenario, experiment: Experiment, assets: Assets, dt_s: Fraction = Fraction(1)
) -> dict[str, ScenarioDatacenter]:
    """One datacenter per site, by site name in the scenario's order; the training job runs at the first."""
    datacenters = {}
    for position, site in enumerate(scenario.sites):
        job = scenario.training_run if position == 0 else None
        datacenters[site.name] = _build(site, experiment, assets, job, dt_s)
    return datacenters


def _build(
    site: Site, experiment: Experiment, assets: Assets, job: TrainingJob | None, dt_s: Fraction
) -> ScenarioDatacenter:
    physics = experiment.datacenter
    specs = tuple(openg2g_spec(spec) for spec in experiment.site_models(site))
    return ScenarioDatacenter(
        DatacenterConfig(
            gpus_per_server=physics.gpus_per_server,
            base_kw_per_phase=site.base_kw_per_phase,
            power_factor=physics.power_factor,
        ),
        OfflineWorkload(
            inference_data=assets.inference.filter_models(specs),
            replica_schedules={model.label: _schedule(model) for model in site.models},
            initial_batch_sizes={model.label: model.initial_batch_size for model in site.models},
            training=training_schedule(job, assets),
        ),
        name=site.name,
        dt_s=dt_s,
        seed=site.seed,
        power_augmentation=PowerAugmentationConfig(
            amplitude_scale_range=physics.amplitude_scale_range, noise_fraction=physics.noise_fraction
        ),
        total_gpu_capacity=site.total_gpu_capacity,
    )


def _schedule(model: ModelDeployment) -> ReplicaSchedule:
    schedule = ReplicaSchedule(initial=model.replicas)
    for ramp in model.ramps:
        schedule = schedule.ramp_to(ramp.target_replicas, t_start=ramp.t_start_s, t_end=ramp.t_end_s)
    return schedule


def training_schedule(job: TrainingJob | None, assets: Assets) -> TrainingSchedule:
    """When openg2g's training job runs and at which power; empty without a job."""
    if job is None or job.n_gpus == 0:
        return TrainingSchedule()
    run = TrainingRun(n_gpus=job.n_gpus, trace=assets.training_trace, target_peak_W_per_gpu=job.target_peak_w_per_gpu)
    return run.at(t_start=job.t_start_s, t_end=job.t_end_s)


Controller = Any
MakeController = Callable[[Site, ScenarioDatacenter, ScenarioGrid, Experiment, Assets], Controller]


@runtime_checkable
class ControlPolicy(Protocol):
    """A policy that is not one of the named ones, such as a trained one."""

    @property
    def name(self) -> str:
        """What a rollout calls it."""
        ...

    def controllers(self, datacenters: dict[str, ScenarioDatacenter], grid: ScenarioGrid) -> list[Controller]:
        """openg2g controllers for the sites of a rollout, which is not started yet."""
        ...


Policy = str | ControlPolicy | ControllerPolicy | ControllerFunction
"""Who sets batch sizes: one of `POLICIES` by name, a controller of one's own, or an object that makes openg2g's."""


def _ofo(
    site: Site, datacenter: ScenarioDatacenter, grid: ScenarioGrid, experiment: Experiment, assets: Assets
) -> Controller:
    return OFOBatchSizeController(
        tuple(openg2g_spec(spec) for spec in experiment.site_models(site)),
        datacenter=datacenter,
        grid=grid,
        models=assets.logistic,
        config=OFOConfig(**asdict(experiment.ofo)),
        initial_batch_sizes={model.label: model.initial_batch_size for model in site.models},
    )


def rule_based_config(experiment: Experiment) -> RuleBasedConfig:
    """openg2g's rule with its own tuning, on the experiment's limits."""
    return RuleBasedConfig(v_min=experiment.limits.v_min_pu, v_max=experiment.limits.v_max_pu)


def rule_zone(experiment: Experiment, site: str, zonal: bool) -> tuple[str, ...] | None:
    """The buses that a site's rule looks at: all (None) as by openg2g's default, or those of its zone if it has one."""
    return experiment.feeder.zones.get(site) if zonal else None


def _rule_based(
    site: Site,
    datacenter: ScenarioDatacenter,
    grid: ScenarioGrid,
    experiment: Experiment,
    assets: Assets,
    *,
    zonal: bool,
) -> Controller:
    del assets  # it decides from voltages and latency alone
    return RuleBasedBatchSizeController(
        tuple(openg2g_spec(spec) for spec in experiment.site_models(site)),
        datacenter=datacenter,
        grid=grid,
        config=rule_based_config(experiment),
        exclude_buses=experiment.feeder.exclude_buses,
        zone_buses=rule_zone(experiment, site.name, zonal),
        initial_batch_sizes={model.label: model.initial_batch_size for model in site.models},
    )


_MAKERS: dict[str, MakeController | None] = {
    "none": None,
    "ofo": _ofo,
    "rule-based": partial(_rule_based, zonal=False),
    "rule-based-zonal": partial(_rule_based, zonal=True),
}

POLICIES = (*_MAKERS, *CONTROLLERS)
"""Names of the policies: "none" (the baseline), "ofo", "rule-based" on the worst voltage of the whole feeder (openg2g's
default), "rule-based-zonal" on that of each site's zone; then the controllers that ship."""


def as_policy(policy: object) -> str | ControlPolicy | ControllerPolicy:
    """What may stand for a policy as one: a controller, or the name of one that ships, becomes a `ControllerPolicy`.

    Raises:
        UnknownNameError: No policy of that name.
        InvalidSettingError: Neither a name, nor a controller, nor an object that makes openg2g's.
    """
    if isinstance(policy, str) and policy not in POLICIES:
        raise UnknownNameError(f"policy {policy!r} is not known; expected one of {', '.join(POLICIES)}")
    if isinstance(policy, ControlPolicy) or (isinstance(policy, str) and policy in _MAKERS):
        return policy
    if not isinstance(policy, str) and not callable(policy) and not isinstance(policy, ControllerPolicy):
        raise refused("policy", policy, f"one of {', '.join(POLICIES)}, a controller, or a trained policy")
    return as_controller_policy("policy", policy)


def policy_name(policy: str | ControlPolicy | ControllerPolicy) -> str:
    """What rollouts and tables call a policy."""
    return policy if isinstance(policy, str) else policy.name


def build_controllers(
    policy: str | ControlPolicy,
    sites: tuple[Site, ...],
    datacenters: dict[str, ScenarioDatacenter],
    grid: ScenarioGrid,
    experiment: Experiment,
    assets: Assets,
) -> list[Controller]:
    """One controller per site, in site order; none for the baseline; a policy that is an object makes its own."""
    if not isinstance(policy, str):
        return policy.controllers(datacenters, grid)
    make = _MAKERS[policy]
    if make is None:
        return []
    return [make(site, datacenters[site.name], grid, experiment, assets) for site in sites]
