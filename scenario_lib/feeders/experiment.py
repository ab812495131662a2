"""The feeder as it stands: circuit, source, regulator taps, voltage limits, buses that count, zones.

The experiment: everything a scenario is a variation of.

Feeder, sites, PV systems, loads, the training job that an overlay is scaled from, and the tuning of the OFO
controller. A scenario is a pure function of (experiment, settings, seed).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from scenario_lib._values import (
    ANY,
    MOST_GPUS,
    STRICT,
    Bounds,
    convert_fields,
    count,
    few,
    instance_of,
    positive,
    refuse,
    refused,
    require_at_least,
    require_at_most_entries,
    require_between,
    require_bounds,
    require_distinct,
    require_name,
    tuple_of,
)
from scenario_lib.feeders.sites import DatacenterPhysics, PVSystem, Site, TimeVaryingLoad
from scenario_lib.models.specs import ModelSpec

_LIMIT_BOUNDS = {"v_min_pu": positive(10), "v_max_pu": positive(10)}
_FEEDER_BOUNDS = {"source_pu": positive(10)}
_MOST_ZONES, _MOST_BUSES, _MOST_STEPS = 1000, 1_000_000, 100


@dataclass(frozen=True, slots=True)
class VoltageLimits:
    """Voltage band (pu) outside which a bus-phase is in violation; ANSI C84.1 Range A by default."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    v_min_pu: float = 0.95
    v_max_pu: float = 1.05

    def __post_init__(self) -> None:
        require_bounds(self, _LIMIT_BOUNDS)
        if self.v_max_pu <= self.v_min_pu:
            raise refuse("v_max_pu", self.v_max_pu, f"more than v_min_pu ({self.v_min_pu})")


def as_limits(field: str, value: object) -> VoltageLimits:
    """Limits, or a pair such as (0.95, 1.05); see `arguments`."""
    if isinstance(value, VoltageLimits):
        return value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise refused(field, value, "Limits, or a pair such as (0.95, 1.05)")
    return VoltageLimits(*value)


@dataclass(frozen=True, slots=True)
class Feeder:
    """A distribution feeder as it stands.

    Attributes:
        name: Name in messages and libraries.
        circuit: Text of the OpenDSS circuit file's path, absolute.
        source_pu: Source voltage (pu); wins over the circuit file, whose own holds if it is None.
        initial_taps_pu: Regulator control name to tap ratio (pu).
        initial_capacitor_steps: Capacitor name to one number per step, 1 if it is closed and 0 if it is open; others
            are as the circuit file has them.
        exclude_buses: Buses that no measure counts.
        zones: Zone name to its buses, in alphabetical order of the names whatever order they are given in, because
            observations list them so; empty where the feeder has no zones.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    name: str
    circuit: str
    source_pu: float | None = None
    initial_taps_pu: dict[str, float] = field(default_factory=dict)
    exclude_buses: tuple[str, ...] = ()
    zones: dict[str, tuple[str, ...]] = field(default_factory=dict)
    initial_capacitor_steps: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "zones", dict(sorted(self.zones.items())))
        require_name("feeder name", self.name)
        require_bounds(self, _FEEDER_BOUNDS)
        require_at_most_entries("zones", self.zones, _MOST_ZONES)
        for zone, buses in self.zones.items():
            require_name("zone name", zone)
            _require_buses(f"zone {zone}", buses)
        _require_buses("exclude_buses", self.exclude_buses)
        for regulator, tap in self.initial_taps_pu.items():
            require_name("regulator name in initial_taps_pu", regulator)
            require_between(f"initial tap of {regulator}", tap, 0.5, 1.5)
        require_at_most_entries("initial_capacitor_steps", self.initial_capacitor_steps, _MOST_BUSES)
        for capacitor, steps in self.initial_capacitor_steps.items():
            require_name("capacitor name in initial_capacitor_steps", capacitor)
            if not steps or len(steps) > _MOST_STEPS or not set(steps) <= {0, 1}:
                raise refuse(f"initial_capacitor_steps of {capacitor}", steps, "0 or 1 for each step, such as [1]")


def _require_buses(field: str, buses: tuple[str, ...]) -> None:
    require_at_most_entries(field, buses, _MOST_BUSES)
    for bus in buses:
        require_name(f"bus in {field}", bus)


DURATION_S = 3600
"""Length of every scenario (s); one simulation step is one second."""

INITIAL_BATCH_CHOICES = (32, 64, 128)
"""Batch sizes among which a scenario's initial ones are drawn."""

_JOB_BOUNDS = {
    "n_gpus": count(0, MOST_GPUS),
    "target_peak_w_per_gpu": positive(1e5),
    "t_start_s": ANY,
    "t_end_s": ANY,
}
_OFO_BOUNDS = {
    "primal_step_size": positive(),
    "w_throughput": Bounds(0),
    "w_switch": Bounds(0),
    "voltage_gradient_scale": Bounds(0, 1e12),
    "v_min": positive(10),
    "v_max": positive(10),
    "voltage_dual_step_size": positive(),
    "latency_dual_step_size": positive(),
    "sensitivity_update_interval": count(0),
    "sensitivity_perturbation_kw": positive(1e7),
}
_MOST_SITES, _MOST_ELEMENTS = 100, 10_000
_MOST_SERVERS = 40_000
"""Limit over all sites: noise is drawn for each server and second, 29 kB a server, together about a gigabyte."""


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
        require_bounds(self, _JOB_BOUNDS, "training job {}")
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
        require_bounds(self, _OFO_BOUNDS, "ofo {}")
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
    limits: VoltageLimits = VoltageLimits()
    ofo: OFOTuning = OFOTuning()
    datacenter: DatacenterPhysics = DatacenterPhysics()
    randomize_ramps_default: bool = True

    def __post_init__(self) -> None:
        convert_fields(self, feeder=instance_of(Feeder), sites=tuple_of(instance_of(Site)))
        convert_fields(self, pv_systems=tuple_of(instance_of(PVSystem)), loads=tuple_of(instance_of(TimeVaryingLoad)))
        convert_fields(self, models=tuple_of(instance_of(ModelSpec)))
        if not self.sites:
            raise refuse("sites", self.sites, "at least one datacenter site")
        for name, entries, most in (
            ("sites", self.sites, _MOST_SITES),
            ("pv_systems", self.pv_systems, _MOST_ELEMENTS),
            ("loads", self.loads, _MOST_ELEMENTS),
        ):
            require_at_most_entries(name, entries, most)
        require_distinct("site names", (site.name.lower() for site in self.sites))
        for site in self.sites:
            self._check_site(site)
        gpus = sum(site.total_gpu_capacity for site in self.sites)
        if gpus > _MOST_SERVERS * self.datacenter.gpus_per_server:
            most = _MOST_SERVERS * self.datacenter.gpus_per_server
            raise refuse("total_gpu_capacity of all sites", gpus, f"at most {most}, which is {_MOST_SERVERS} servers")

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
        raise refuse("model label", label, f"one of {few(spec.label for spec in self.models)}")

    def site_models(self, site: Site) -> tuple[ModelSpec, ...]:
        """Specifications of the models of one site, in its order."""
        return tuple(self.spec(deployment.label) for deployment in site.models)
