"""PV systems and time-varying loads.

All powers are kW **per phase**, on each phase that the bus has.
"""

from dataclasses import dataclass
from typing import ClassVar

from scenario_lib.feeders.checks import (
    ANY,
    STRICT,
    Bounds,
    positive,
    refuse,
    require_at_most_entries,
    require_bounds,
    require_circuit_name,
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
