"""The feeder as it stands: circuit, source, regulator taps, voltage limits, buses that count, zones."""

from dataclasses import dataclass, field
from typing import ClassVar

from scenario_lib.feeders.arguments import refused
from scenario_lib.feeders.checks import (
    STRICT,
    positive,
    refuse,
    require_at_most_entries,
    require_between,
    require_bounds,
    require_name,
)

_LIMIT_BOUNDS = {"v_min_pu": positive(10), "v_max_pu": positive(10)}
_FEEDER_BOUNDS = {"source_pu": positive(10)}
_MOST_ZONES, _MOST_BUSES = 1000, 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Voltage band (pu) outside which a bus-phase is in violation; ANSI C84.1 Range A by default."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    v_min_pu: float = 0.95
    v_max_pu: float = 1.05

    def __post_init__(self) -> None:
        require_bounds(self, _LIMIT_BOUNDS)
        if self.v_max_pu <= self.v_min_pu:
            raise refuse("v_max_pu", self.v_max_pu, f"more than v_min_pu ({self.v_min_pu})")


def as_limits(field: str, value: object) -> Limits:
    """Limits, or a pair such as (0.95, 1.05); see `arguments`."""
    if isinstance(value, Limits):
        return value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise refused(field, value, "Limits, or a pair such as (0.95, 1.05)")
    return Limits(*value)


@dataclass(frozen=True, slots=True)
class Feeder:
    """A distribution feeder as it stands.

    Attributes:
        name: Name in messages and libraries.
        circuit: Text of the OpenDSS circuit file's path, absolute.
        source_pu: Source voltage (pu); wins over the circuit file.
        initial_taps_pu: Regulator control name to tap ratio (pu).
        exclude_buses: Buses that no measure counts.
        zones: Zone name to its buses, in alphabetical order of the names whatever order they are given in, because
            observations list them so; empty where the feeder has no zones.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    name: str
    circuit: str
    source_pu: float = 1.0
    initial_taps_pu: dict[str, float] = field(default_factory=dict)
    exclude_buses: tuple[str, ...] = ()
    zones: dict[str, tuple[str, ...]] = field(default_factory=dict)

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


def _require_buses(field: str, buses: tuple[str, ...]) -> None:
    require_at_most_entries(field, buses, _MOST_BUSES)
    for bus in buses:
        require_name(f"bus in {field}", bus)
