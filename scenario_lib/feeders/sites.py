"""PV systems and time-varying loads.

All powers are kW **per phase**, on each phase that the bus has.

Datacenter sites: which LLMs run where, in how many replicas, and how server powers scatter.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from scenario_lib._values import (
    ANY,
    LARGEST_SEED,
    MOST_GPUS,
    STRICT,
    Bounds,
    count,
    positive,
    refuse,
    require_at_least,
    require_at_most_entries,
    require_bounds,
    require_circuit_name,
    require_distinct,
    require_name,
)

_BOUNDS = {"bus_kv": positive(2000), "peak_kw_per_phase": Bounds(0, 1e7), "power_factor": Bounds(1e-6, 1)}
_MOST_POINTS = 1_000_000


@dataclass(frozen=True, slots=True)
class PowerSeries:
    """A measured or made profile: kW per phase at rising times, linear in between, end values held."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    time_s: tuple[float, ...]
    kw_per_phase: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.time_s) != len(self.kw_per_phase) or len(self.time_s) < 1:
            raise refuse("profile", (len(self.time_s), len(self.kw_per_phase)), "as many powers as times, at least one")
        require_at_most_entries("profile", self.time_s, _MOST_POINTS)
        for value in (*self.time_s, *self.kw_per_phase):
            ANY.require("profile value", value)
        if any(later <= earlier for earlier, later in zip(self.time_s, self.time_s[1:], strict=False)):
            raise refuse("profile times", "not rising", "strictly rising times in seconds")


@dataclass(frozen=True, slots=True)
class BusPower:
    """A PV system or a time-varying load: single-phase wye elements on each phase that the bus has.

    Attributes:
        peak_kw_per_phase: Peak of the profile (kW per phase).
        power_factor: In (0, 1].
        series: A profile of its own; None means the analytic profile of its index.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    bus: str
    bus_kv: float
    peak_kw_per_phase: float
    power_factor: float
    series: PowerSeries | None = None

    def __post_init__(self) -> None:
        require_circuit_name("bus", self.bus)
        require_bounds(self, _BOUNDS, f"{{}} at bus {self.bus}")


@dataclass(frozen=True, slots=True)
class PVSystem(BusPower):
    """A PV system; its power is generation."""

    power_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class TimeVaryingLoad(BusPower):
    """A load whose power changes with time."""

    power_factor: float = 0.96


# OpenDSS element names are made of site names.
_SAFE_SITE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")

_RAMP_BOUNDS = {"target_replicas": count(0, MOST_GPUS), "t_start_s": ANY, "t_end_s": ANY}
_DEPLOYMENT_BOUNDS = {"replicas": count(0, MOST_GPUS), "initial_batch_size": count(1, 1_000_000)}
_SITE_BOUNDS = {
    "bus_kv": positive(2000),
    "base_kw_per_phase": Bounds(0, 1e7),
    "total_gpu_capacity": count(1, MOST_GPUS),
    "seed": count(0, LARGEST_SEED),
}
_PHYSICS_BOUNDS = {
    "gpus_per_server": count(1, 10_000),
    "power_factor": Bounds(1e-6, 1),
    "noise_fraction": Bounds(0, 10),
    "template_duration_s": Bounds(1, 86_400),
}
_SCALE_BOUNDS = positive(100)
_MOST_RAMPS, _MOST_MODELS = 1000, 100


@dataclass(frozen=True, slots=True)
class Ramp:
    """A linear change of one model's replica count over [t_start_s, t_end_s], from the level before it."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    target_replicas: int
    t_start_s: float
    t_end_s: float

    def __post_init__(self) -> None:
        require_bounds(self, _RAMP_BOUNDS, "ramp {}")
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
        require_name("model label", self.label)
        require_bounds(self, _DEPLOYMENT_BOUNDS, f"{{}} of {self.label}")
        require_at_most_entries(f"ramps of {self.label}", self.ramps, _MOST_RAMPS)
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
        if not isinstance(self.name, str) or not _SAFE_SITE_NAME.fullmatch(self.name):
            raise refuse("site name", self.name, "letters, digits, underscores and hyphens only")
        require_circuit_name(f"bus of site {self.name}", self.bus)
        require_bounds(self, _SITE_BOUNDS, f"{{}} of site {self.name}")
        if self.connection_type not in ("wye", "delta"):
            raise refuse(f"connection_type of site {self.name}", self.connection_type, "'wye' or 'delta'")
        if not self.models:
            raise refuse(f"models of site {self.name}", self.models, "at least one model")
        require_at_most_entries(f"models of site {self.name}", self.models, _MOST_MODELS)
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
        require_bounds(self, _PHYSICS_BOUNDS)
        low, high = self.amplitude_scale_range
        for end in (low, high):
            _SCALE_BOUNDS.require("amplitude_scale_range", end)
        if high < low:
            raise refuse("amplitude_scale_range", self.amplitude_scale_range, "(low, high) with low <= high")
