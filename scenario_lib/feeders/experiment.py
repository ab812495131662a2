"""The experiment: everything a scenario is a variation of.

Feeder, sites, PV systems, loads, the training job that an overlay is scaled from, and the tuning of the OFO
controller. A scenario is a pure function of (experiment, settings, seed).
"""

from dataclasses import dataclass
from typing import ClassVar

from scenario_lib.feeders.arguments import convert_fields, instance_of, tuple_of
from scenario_lib.feeders.bus_power import PVSystem, TimeVaryingLoad
from scenario_lib.feeders.checks import (
    STRICT,
    refuse,
    require_at_least,
    require_count,
    require_distinct,
    require_finite,
    require_positive,
)
from scenario_lib.feeders.feeder import Feeder, Limits
from scenario_lib.feeders.models import ModelSpec
from scenario_lib.feeders.sites import DatacenterPhysics, Site

DURATION_S = 3600
"""Length of every scenario (s); one simulation step is one second."""

INITIAL_BATCH_CHOICES = (32, 64, 128)
"""Batch sizes among which a scenario's initial ones are drawn."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training job over [t_start_s, t_end_s] on the first site.

    Attributes:
        n_gpus: GPUs that it occupies.
        target_peak_w_per_gpu: Peak to which the single-GPU training trace is scaled (W).
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    n_gpus: int
    target_peak_w_per_gpu: float
    t_start_s: float
    t_end_s: float

    def __post_init__(self) -> None:
        require_count("training job n_gpus", self.n_gpus, 0)
        require_positive("training job target_peak_w_per_gpu", self.target_peak_w_per_gpu)
        require_finite("training job t_start_s", self.t_start_s)
        require_at_least("training job t_end_s", self.t_end_s, self.t_start_s)


@dataclass(frozen=True, slots=True)
class OFOTuning:
    """Tuning of openg2g's Online Feedback Optimization controller; the names are those of its `OFOConfig`.

    Attributes:
        voltage_gradient_scale: Weight of the voltage term in the gradient.
        sensitivity_update_interval: Seconds between two estimates of the voltage sensitivity.
        sensitivity_perturbation_kw: Perturbation of each estimate (kW).
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    primal_step_size: float = 0.05
    w_throughput: float = 1e-4
    w_switch: float = 1.0
    voltage_gradient_scale: float = 1e6
    v_min: float = 0.95
    v_max: float = 1.05
    voltage_dual_step_size: float = 1.0
    latency_dual_step_size: float = 1.0
    sensitivity_update_interval: int = 300
    sensitivity_perturbation_kw: float = 100.0

    def __post_init__(self) -> None:
        for name in ("primal_step_size", "voltage_dual_step_size", "latency_dual_step_size", "v_min"):
            require_positive(f"ofo {name}", getattr(self, name))
        for name in ("w_throughput", "w_switch", "voltage_gradient_scale"):
            require_at_least(f"ofo {name}", getattr(self, name), 0)
        require_positive("ofo sensitivity_perturbation_kw", self.sensitivity_perturbation_kw)
        require_count("ofo sensitivity_update_interval", self.sensitivity_update_interval, 0)
        if self.v_max <= self.v_min:
            raise refuse("ofo v_max", self.v_max, f"more than v_min ({self.v_min})")


@dataclass(frozen=True, slots=True, repr=False)
class Experiment:
    """A feeder and what runs on it, before any randomisation.

    Attributes:
        sites: Order matters: it is the order of draws, and the training job runs at the first.
        models: Specifications of all models that the sites run.
        overlay: The training job that an overlay is scaled from; None means no overlay.
        randomize_ramps_default: Whether a build on this experiment draws ramps unless told otherwise.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    feeder: Feeder
    sites: tuple[Site, ...]
    pv_systems: tuple[PVSystem, ...]
    loads: tuple[TimeVaryingLoad, ...]
    models: tuple[ModelSpec, ...]
    overlay: TrainingJob | None = None
    limits: Limits = Limits()
    ofo: OFOTuning = OFOTuning()
    datacenter: DatacenterPhysics = DatacenterPhysics()
    randomize_ramps_default: bool = True

    def __post_init__(self) -> None:
        convert_fields(self, feeder=instance_of(Feeder), sites=tuple_of(instance_of(Site)))
        convert_fields(self, pv_systems=tuple_of(instance_of(PVSystem)), loads=tuple_of(instance_of(TimeVaryingLoad)))
        convert_fields(self, models=tuple_of(instance_of(ModelSpec)))
        if not self.sites:
            raise refuse("sites", self.sites, "at least one datacenter site")
        require_distinct("site names", (site.name.lower() for site in self.sites))
        for site in self.sites:
            self._check_site(site)

    def _check_site(self, site: Site) -> None:
        gpus = 0
        for deployment in site.models:
            spec = self.spec(deployment.label)
            gpus += deployment.replicas * spec.gpus_per_replica
            needed = {*INITIAL_BATCH_CHOICES, deployment.initial_batch_size}
            if not needed <= set(spec.feasible_batch_sizes):
                raise refuse(
                    f"feasible_batch_sizes of {spec.label}", spec.feasible_batch_sizes, f"among them {sorted(needed)}"
                )
        if gpus > site.total_gpu_capacity:
            raise refuse(
                f"total_gpu_capacity of site {site.name}", site.total_gpu_capacity, f"at least the {gpus} GPUs it runs"
            )

    def __repr__(self) -> str:
        sites, models = (", ".join(names) for names in ([s.name for s in self.sites], [m.label for m in self.models]))
        return f"Experiment({self.name}: sites {sites}; models {models})"

    @property
    def name(self) -> str:
        """The feeder's name, which libraries store as `system`."""
        return self.feeder.name

    def spec(self, label: str) -> ModelSpec:
        """Specification of one model.

        Raises:
            InvalidSettingError: No model of that label.
        """
        for spec in self.models:
            if spec.label == label:
                return spec
        raise refuse("model label", label, f"one of {', '.join(spec.label for spec in self.models)}")

    def site_models(self, site: Site) -> tuple[ModelSpec, ...]:
        """Specifications of the models of one site, in its order."""
        return tuple(self.spec(deployment.label) for deployment in site.models)
