"""The datacenters of one rollout as openg2g objects."""

from fractions import Fraction
from typing import Any

from openg2g.datacenter.config import (
    DatacenterConfig,
    PowerAugmentationConfig,
    ReplicaSchedule,
    TrainingRun,
    TrainingSchedule,
)
from openg2g.datacenter.layout import ServerPool
from openg2g.datacenter.offline import OfflineDatacenter, OfflineWorkload

from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.sites import ModelDeployment, Site
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets, openg2g_spec


class RememberingServerPool(ServerPool):  # type: ignore[misc]
    """openg2g's pool, computing an allocation once per demand: it depends on nothing else.

    The demand only changes inside ramps, while the allocation is asked for every second.
    """

    def allocate(self, gpu_demands: dict[str, int]) -> dict[str, Any]:
        demand = tuple(gpu_demands.items())
        if getattr(self, "_remembered", (None,))[0] != demand:
            self._remembered = (demand, super().allocate(gpu_demands))
        return dict(self._remembered[1])


class ScenarioDatacenter(OfflineDatacenter):  # type: ignore[misc]
    """openg2g's trace-based datacenter with a pool that remembers its allocation; bit for bit the same power."""

    def _build_server_pool(self) -> ServerPool:
        return RememberingServerPool(**vars(super()._build_server_pool()))


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
