"""How much datacenter a bus can host: the largest balanced load at which no bus-phase falls below the lower limit.

Hosting capacity by an under-voltage limit, one bus at a time, found by bisection of power flows (Bollen and Hassan,
Integration of Distributed Generation in the Power System, Wiley-IEEE 2011, chapter 3, there for generation and over-
voltage). The load is what openg2g makes of a datacenter: three single-phase constant powers between phase and
neutral. Ratings of lines and transformers are not looked at; circuits often leave them at OpenDSS's defaults.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from openg2g.grid.opendss import dss

from scenario_lib.errors import UnknownNameError
from scenario_lib.feeders.checks import few, likely
from scenario_lib.simulation.grid import tan_phi
from scenario_lib.simulation.own_feeder.standing import PHASES, CountedNodes, Standing, base_kv, phases_of, solve

_FIRST_KW = 64
_MOST_KW = 2**17
"""No distribution feeder carries 131 MW a phase; a bus that does is at the source."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """What one three-phase bus can host.

    Attributes:
        bus_kv: Voltage base line to line (kV).
        kw_per_phase: Largest load per phase (whole kW) that keeps all voltages at or above the lower limit.
        limited_by: The bus-phase that falls below it next, "no solution" if the power flow breaks down first, or
            "nothing" up to 131 MW a phase.
    """

    bus: str
    bus_kv: float
    kw_per_phase: int
    limited_by: str


def hosting_capacities(standing: Standing, nodes: CountedNodes, buses: Sequence[str] = ()) -> Iterator[Hosting]:
    """Capacity of every three-phase bus with a voltage base that is not excluded, in the circuit's order.

    The circuit that OpenDSS holds is left with three loads of 0 kW more.

    Args:
        buses: Only these; none means all.

    Raises:
        UnknownNameError: One of them is no such bus.
    """
    left_out = {bus.lower() for bus in standing.exclude_buses}
    named = [str(bus) for bus in dss.Circuit.AllBusNames()]
    hosts = [bus for bus in named if bus.lower() not in left_out and phases_of(bus) == PHASES and base_kv(bus)]
    unknown = [bus for bus in buses if bus.lower() not in {host.lower() for host in hosts}]
    if unknown:
        raise UnknownNameError(
            f"{standing.circuit}: {few(unknown)} cannot host a datacenter; {likely(unknown[0], hosts)}"
        )
    hosts = [host for host in hosts if not buses or host.lower() in {bus.lower() for bus in buses}]
    trial = _Trial(nodes, standing.limits.v_min_pu, tan_phi(standing.datacenter.power_factor))
    for bus in hosts:
        yield trial.capacity(bus)


class _Trial:
    """Three loads that are tried at one bus after another."""

    def __init__(self, nodes: CountedNodes, v_min_pu: float, kvar_per_kw: float) -> None:
        self._nodes = nodes
        self._v_min_pu = v_min_pu
        self._kvar_per_kw = kvar_per_kw
        self._verb = "New"

    def capacity(self, bus: str) -> Hosting:
        """Double the load until a limit breaks, then halve the interval down to 1 kW."""
        kv = base_kv(bus)
        low, high = 0, _FIRST_KW
        limit = self._broken(bus, kv, low)
        if limit is None:
            while high <= _MOST_KW and (limit := self._broken(bus, kv, high)) is None:
                low, high = high, 2 * high
            while limit is not None and high - low > 1:
                middle = (low + high) // 2
                found = self._broken(bus, kv, middle)
                low, high, limit = (middle, high, limit) if found is None else (low, middle, found)
        self._set(bus, kv, 0)
        return Hosting(bus, round(kv, 3), low, limit or "nothing")

    def _broken(self, bus: str, kv: float, kw_per_phase: int) -> str | None:
        self._set(bus, kv, kw_per_phase)
        if not solve():
            return "no solution"
        voltages = self._nodes.voltages_pu()
        lowest = int(np.argmin(voltages))
        return None if voltages[lowest] >= self._v_min_pu else self._nodes.names[lowest]

    def _set(self, bus: str, kv: float, kw_per_phase: int) -> None:
        for phase in PHASES:
            dss.Text.Command(
                f"{self._verb} Load.hosted_{phase} bus1={bus}.{phase} phases=1 conn=wye kV={kv / 3**0.5:.6f} "
                f"kW={kw_per_phase} kvar={kw_per_phase * self._kvar_per_kw:.6f} model=1"
            )
        self._verb = "Edit"
