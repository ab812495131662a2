"""The feeder as it stands: circuit, source, regulator taps, voltage limits, buses that count, zones."""

from dataclasses import dataclass, field
from typing import ClassVar

from scenario_lib.feeders.arguments import refused
from scenario_lib.feeders.checks import STRICT, refuse, require_between, require_finite, require_positive


@dataclass(frozen=True, slots=True)
class Limits:
    """Voltage band (pu) outside which a bus-phase is in violation; ANSI C84.1 Range A by default."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    v_min_pu: float = 0.95
    v_max_pu: float = 1.05

    def __post_init__(self) -> None:
        require_positive("v_min_pu", self.v_min_pu)
        require_finite("v_max_pu", self.v_max_pu)
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
        require_positive("source_pu", self.source_pu)
        for regulator, tap in self.initial_taps_pu.items():
            require_between(f"initial tap of {regulator}", tap, 0.5, 1.5)
