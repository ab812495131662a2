"""Datacenter sites: which LLMs run where, in how many replicas, and how server powers scatter."""

import re
from dataclasses import dataclass
from typing import ClassVar

from scenario_lib.feeders.checks import (
    STRICT,
    refuse,
    require_at_least,
    require_between,
    require_count,
    require_distinct,
    require_finite,
    require_positive,
)

# OpenDSS element names are made of site names.
_SAFE_SITE_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Ramp:
    """A linear change of one model's replica count over [t_start_s, t_end_s], from the level before it."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    target_replicas: int
    t_start_s: float
    t_end_s: float

    def __post_init__(self) -> None:
        require_count("ramp target_replicas", self.target_replicas, 0)
        require_finite("ramp t_start_s", self.t_start_s)
        require_at_least("ramp t_end_s", self.t_end_s, self.t_start_s)


@dataclass(frozen=True, slots=True)
class ModelDeployment:
    """One LLM at one site: how many replicas, at which batch size, with which ramps.

    Attributes:
        label: Model label, a name known to the model catalogue or to the experiment file.
        replicas: Replica count before any ramp.
        initial_batch_size: Batch size at the first second.
        ramps: In order of time, not overlapping.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    label: str
    replicas: int
    initial_batch_size: int = 128
    ramps: tuple[Ramp, ...] = ()

    def __post_init__(self) -> None:
        require_count(f"replicas of {self.label}", self.replicas, 0)
        require_count(f"initial_batch_size of {self.label}", self.initial_batch_size, 1)
        for earlier, later in zip(self.ramps, self.ramps[1:], strict=False):
            if later.t_start_s < earlier.t_end_s:
                raise refuse(f"ramps of {self.label}", (earlier, later), "ramps in order of time, not overlapping")


@dataclass(frozen=True, slots=True)
class Site:
    """A datacenter at one bus.

    Attributes:
        base_kw_per_phase: Constant facility load per phase (kW).
        total_gpu_capacity: GPUs that the site can run, inference and training together.
        seed: Seed of the site's server layout, noise and latency draws.
        connection_type: "wye", each phase to neutral, or "delta", phase A to B, B to C and C to A.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    name: str
    bus: str
    bus_kv: float
    base_kw_per_phase: float
    total_gpu_capacity: int
    models: tuple[ModelDeployment, ...]
    seed: int = 0
    connection_type: str = "wye"

    def __post_init__(self) -> None:
        if not _SAFE_SITE_NAME.fullmatch(self.name):
            raise refuse("site name", self.name, "letters, digits, underscores and hyphens only")
        require_positive(f"bus_kv of site {self.name}", self.bus_kv)
        require_at_least(f"base_kw_per_phase of site {self.name}", self.base_kw_per_phase, 0)
        require_count(f"total_gpu_capacity of site {self.name}", self.total_gpu_capacity, 1)
        require_count(f"seed of site {self.name}", self.seed, 0)
        if self.connection_type not in ("wye", "delta"):
            raise refuse(f"connection_type of site {self.name}", self.connection_type, "'wye' or 'delta'")
        if not self.models:
            raise refuse(f"models of site {self.name}", self.models, "at least one model")
        require_distinct(f"models of site {self.name}", (model.label for model in self.models))


@dataclass(frozen=True, slots=True)
class DatacenterPhysics:
    """What all sites share: servers, power factor, and how server powers scatter.

    The defaults are those of openg2g's RL study.

    Attributes:
        amplitude_scale_range: Range of the per-server power multiplier.
        noise_fraction: Standard deviation of the per-second server noise, as a fraction of the server's power.
        template_duration_s: Length of the repeated power template (s).
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    gpus_per_server: int = 8
    power_factor: float = 0.95
    amplitude_scale_range: tuple[float, float] = (0.98, 1.02)
    noise_fraction: float = 0.005
    template_duration_s: float = 600.0

    def __post_init__(self) -> None:
        require_count("gpus_per_server", self.gpus_per_server, 1)
        require_between("datacenter power_factor", self.power_factor, 1e-6, 1)
        low, high = self.amplitude_scale_range
        require_positive("amplitude_scale_range", low)
        if high < low:
            raise refuse("amplitude_scale_range", self.amplitude_scale_range, "(low, high) with low <= high")
        require_at_least("noise_fraction", self.noise_fraction, 0)
        require_positive("template_duration_s", self.template_duration_s)
