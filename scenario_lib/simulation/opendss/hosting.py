"""A user's circuit in OpenDSS as a rollout would start it, but without a datacenter.

Source voltage and taps are set, controls are off. For a circuit without an experiment the taps are those at which
OpenDSS's own regulator controls come to rest.

What a circuit is made of, and where its voltages are without a datacenter.

How much datacenter a bus can host: the largest balanced load at which no bus-phase falls below the lower limit.

Hosting capacity by an under-voltage limit, one bus at a time, found by bisection of power flows (Bollen and Hassan,
Integration of Distributed Generation in the Power System, Wiley-IEEE 2011, chapter 3, there for generation and over-
voltage). The load is what openg2g makes of a datacenter: three single-phase constant powers between phase and
neutral. Ratings of lines and transformers are not looked at; circuits often leave them at OpenDSS's defaults.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from opendssdirect import DSSException
from openg2g.grid.opendss import dss

from scenario_lib._values import few, likely
from scenario_lib.errors import DataFileError, MissingDataError, UnknownNameError
from scenario_lib.feeders.experiment import Experiment, VoltageLimits
from scenario_lib.feeders.sites import DatacenterPhysics
from scenario_lib.simulation.opendss.engine import compile_circuit, opendss_held, require_voltage
from scenario_lib.simulation.opendss.grid import set_capacitor_steps, tan_phi
from scenario_lib.simulation.opendss.openg2g_internals import regulator_windings

PHASES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class BaseCase:
    """How a circuit stands before a datacenter comes.

    Attributes:
        circuit: The OpenDSS file.
        source_pu: Source voltage (pu); None leaves the circuit's own.
        taps_pu: Regulator control to tap ratio (pu); None lets the controls settle once.
        capacitor_steps: Capacitor to 0 or 1 for each step; others as the circuit has them, or as they settle.
        exclude_buses: Buses that no measure counts.
    """

    circuit: Path
    source_pu: float | None = None
    taps_pu: dict[str, float] | None = None
    exclude_buses: tuple[str, ...] = ()
    limits: VoltageLimits = VoltageLimits()
    datacenter: DatacenterPhysics = field(default_factory=DatacenterPhysics)
    capacitor_steps: dict[str, tuple[int, ...]] = field(default_factory=dict)


def base_case_of(experiment: Experiment) -> BaseCase:
    """The state in which the experiment's rollouts start."""
    feeder = experiment.feeder
    return BaseCase(
        Path(feeder.circuit),
        feeder.source_pu,
        feeder.initial_taps_pu,
        feeder.exclude_buses,
        experiment.limits,
        experiment.datacenter,
        feeder.initial_capacitor_steps,
    )


@contextmanager
def started(standing: BaseCase) -> Iterator[None]:
    """OpenDSS with the circuit, solved once, and to the caller alone until the block is left.

    Raises:
        MissingDataError: No such file.
        DataFileError: OpenDSS cannot compile or solve it, or it has no voltage bases or no voltage.
    """
    if not standing.circuit.is_file():
        raise MissingDataError(f"{standing.circuit}: no such file; give the path of an OpenDSS circuit")
    with opendss_held():
        try:
            _compile(standing)
            yield
        except DSSException as error:
            raise DataFileError(f"{standing.circuit}: OpenDSS cannot compile it: {error}") from None


def _compile(standing: BaseCase) -> None:
    compile_circuit(standing.circuit)
    if not dss.Basic.NumCircuits():
        raise DataFileError(f"{standing.circuit}: there is no circuit in it; expected a New Circuit command")
    dss.Text.Command("MakeBusList")
    if not any(base_kv(str(bus)) for bus in dss.Circuit.AllBusNames()):
        raise DataFileError(
            f"{standing.circuit}: no bus has a voltage base; end the circuit with Set VoltageBases=[...] and "
            f"CalcVoltageBases"
        )
    if standing.source_pu is not None:
        dss.Text.Command(f"Edit Vsource.source pu={standing.source_pu}")
    if standing.taps_pu is None:
        dss.Text.Command("Set Mode=Snap")
        dss.Text.Command("Set ControlMode=Static")
        dss.Solution.Solve()
        _require_converged(standing, "while its controls settle")
    dss.Text.Command("Set ControlMode=Off")
    _set_taps(standing.taps_pu or {})
    set_capacitor_steps(standing.capacitor_steps)
    solve()
    _require_converged(standing, "even without a datacenter")
    require_voltage(standing.circuit)


def _require_converged(standing: BaseCase, when: str) -> None:
    if not dss.Solution.Converged():
        raise DataFileError(
            f"{standing.circuit}: the power flow does not converge within its {dss.Solution.MaxIterations()} "
            f"iterations, {when}; let it iterate more (Set MaxIterations=100 in the circuit), or correct the circuit "
            f"(loads and line lengths in their units?)"
        )


def _set_taps(taps_pu: dict[str, float]) -> None:
    wanted = {name.lower(): tap for name, tap in taps_pu.items()}
    for name, (transformer, winding) in regulator_windings().items():
        if name in wanted:
            dss.Text.Command(f"Edit Transformer.{transformer} Wdg={winding} Tap={wanted[name]:.6f}")


def solve() -> bool:
    """Solve from a start that does not depend on what was solved before; whether it converged."""
    dss.Solution.SolveDirect()
    dss.Solution.SolveNoControl()
    return bool(dss.Solution.Converged())


@dataclass(frozen=True, slots=True)
class _CountedNodes:
    """The bus-phases that count, such as "671.1", and where OpenDSS keeps their voltages, shape (N,)."""

    names: tuple[str, ...]
    places: NDArray[np.int64]

    def voltages_pu(self) -> NDArray[np.float64]:
        """Voltages of the last solution (pu), shape (N,)."""
        return np.asarray(dss.Circuit.AllBusMagPu())[self.places]


def counted_nodes(exclude_buses: tuple[str, ...]) -> _CountedNodes:
    """All nodes of phases 1 to 3 with a voltage base, apart from those of excluded buses."""
    left_out = {bus.lower() for bus in exclude_buses}
    counted = [
        (place, str(name))
        for place, name in enumerate(dss.Circuit.AllNodeNames())
        if _bus_of(name) not in left_out and int(str(name).rpartition(".")[2]) in PHASES and base_kv(_bus_of(name))
    ]
    return _CountedNodes(tuple(name for _, name in counted), np.array([place for place, _ in counted], np.int64))


def _bus_of(node: object) -> str:
    return str(node).rpartition(".")[0].lower()


def base_kv(bus: str) -> float:
    """Voltage base line to line (kV); 0 without one."""
    dss.Circuit.SetActiveBus(bus)
    return float(dss.Bus.kVBase()) * 3**0.5


def phases_of(bus: str) -> tuple[int, ...]:
    """Which of phases 1 to 3 a bus has."""
    dss.Circuit.SetActiveBus(bus)
    return tuple(sorted({int(node) for node in dss.Bus.Nodes()} & set(PHASES)))


@dataclass(frozen=True, slots=True)
class VoltageExtreme:
    """A voltage (pu) and the bus-phase that has it, such as "671.1"."""

    node: str
    voltage_pu: float


@dataclass(frozen=True, slots=True)
class Survey:
    """A circuit as OpenDSS read it.

    Attributes:
        buses: Number of buses by number of phases.
        kv_levels: Number of buses by voltage base line to line (kV); 0 stands for none.
        loads: Number of loads; their rated power is `load_kw` and `load_kvar`.
        regulator_taps_pu: Tap ratio of each regulator control (pu).
        capacitor_kvar: Rated reactive power of all capacitors.
        capacitor_steps: State of the steps of each capacitor that a control switches, 1 for closed.
        other_elements: Number of elements of any further class.
        source_pu, frequency_hz, load_multiplier: At which the circuit was solved.
        tolerance_pu, max_iterations: Of each power flow.
        outside: Counted bus-phases outside the limits.
        dead: Counted bus-phases with hardly a voltage: neutrals, or behind open switches; in no figure here.
        implausible: Counted bus-phases far from their voltage base.
        lowest, highest: Voltages of the counted bus-phases.
        losses_kw: Losses of lines and transformers.
    """

    buses: dict[int, int]
    kv_levels: dict[float, int]
    loads: int
    load_kw: float
    load_kvar: float
    lines: int
    transformers: int
    regulator_taps_pu: dict[str, float]
    capacitors: int
    capacitor_kvar: float
    capacitor_steps: dict[str, tuple[int, ...]]
    other_elements: dict[str, int]
    source_pu: float
    frequency_hz: float
    load_multiplier: float
    tolerance_pu: float
    max_iterations: int
    outside: tuple[VoltageExtreme, ...]
    dead: tuple[str, ...]
    implausible: tuple[VoltageExtreme, ...]
    lowest: VoltageExtreme
    highest: VoltageExtreme
    losses_kw: float


_DEAD_PU, _PLAUSIBLE_PU = 0.1, (0.5, 1.5)
_ANSI = VoltageLimits()
_COUNTED_APART = ("vsource", "line", "load", "transformer", "regcontrol", "capacitor")


def survey(nodes: _CountedNodes, limits: VoltageLimits = _ANSI) -> Survey:
    """Look at the circuit that OpenDSS holds, after a solution."""
    buses = [str(bus) for bus in dss.Circuit.AllBusNames()]
    classes = Counter(str(name).partition(".")[0].lower() for name in dss.Circuit.AllElementNames())
    found = [VoltageExtreme(*pair) for pair in zip(nodes.names, nodes.voltages_pu().tolist(), strict=True)]
    alive = [node for node in found if node.voltage_pu >= _DEAD_PU] or found
    dss.Vsources.Name("source")
    return Survey(
        buses=dict(sorted(Counter(len(phases_of(bus)) for bus in buses).items(), reverse=True)),
        kv_levels=dict(sorted(Counter(round(base_kv(bus), 3) for bus in buses).items(), reverse=True)),
        loads=classes["load"],
        load_kw=sum(float(load.kW()) for load in dss.Loads),
        load_kvar=sum(float(load.kvar()) for load in dss.Loads),
        lines=classes["line"],
        transformers=classes["transformer"],
        regulator_taps_pu=_taps(),
        capacitors=classes["capacitor"],
        capacitor_kvar=sum(float(capacitor.kvar()) for capacitor in dss.Capacitors),
        capacitor_steps=_capacitor_steps(),
        other_elements={name: count for name, count in sorted(classes.items()) if name not in _COUNTED_APART},
        source_pu=float(dss.Vsources.PU()),
        frequency_hz=float(dss.Solution.Frequency()),
        load_multiplier=float(dss.Solution.LoadMult()),
        tolerance_pu=float(dss.Solution.Convergence()),
        max_iterations=int(dss.Solution.MaxIterations()),
        outside=tuple(node for node in alive if not limits.v_min_pu <= node.voltage_pu <= limits.v_max_pu),
        dead=tuple(node.node for node in found if node.voltage_pu < _DEAD_PU),
        implausible=tuple(node for node in alive if not _PLAUSIBLE_PU[0] <= node.voltage_pu <= _PLAUSIBLE_PU[1]),
        lowest=min(alive, key=lambda node: node.voltage_pu),
        highest=max(alive, key=lambda node: node.voltage_pu),
        losses_kw=float(dss.Circuit.Losses()[0]) / 1e3,
    )


def _taps() -> dict[str, float]:
    taps = {}
    for name, (transformer, winding) in regulator_windings().items():
        dss.Transformers.Name(transformer)
        dss.Transformers.Wdg(winding)
        taps[name] = round(float(dss.Transformers.Tap()), 6)
    return taps


def _capacitor_steps() -> dict[str, tuple[int, ...]]:
    names = sorted({str(control.Capacitor()) for control in dss.CapControls})
    steps = {}
    for name in names:
        dss.Capacitors.Name(name)
        steps[name] = tuple(int(state) for state in dss.Capacitors.States())
    return steps


NO_SOLUTION, UNLIMITED = "no solution", "nothing"
_FIRST_KW = 64
_MOST_KW = 2**17
"""No distribution feeder carries 131 MW a phase; a bus that does is at the source."""


@dataclass(frozen=True, slots=True)
class Hosting:
    """The datacenter power that one three-phase bus can host.

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


def host_buses(standing: BaseCase) -> dict[str, float]:
    """Three-phase buses that are not excluded and have a voltage base, with it (kV line to line), in circuit order."""
    left_out = {bus.lower() for bus in standing.exclude_buses}
    named = [str(bus) for bus in dss.Circuit.AllBusNames()]
    hosts = {bus: base_kv(bus) for bus in named if bus.lower() not in left_out and phases_of(bus) == PHASES}
    return {bus: kv for bus, kv in hosts.items() if kv}


def hosting_capacities(standing: BaseCase, nodes: _CountedNodes, buses: Sequence[str] = ()) -> Iterator[Hosting]:
    """Capacity of every three-phase bus with a voltage base that is not excluded, in the circuit's order.

    The circuit that OpenDSS holds is left with three loads of 0 kW more.

    Args:
        buses: Only these; none means all.

    Raises:
        UnknownNameError: One of them is no such bus.
    """
    hosts = list(host_buses(standing))
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

    def __init__(self, nodes: _CountedNodes, v_min_pu: float, kvar_per_kw: float) -> None:
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
        return Hosting(bus, round(kv, 3), low, limit or UNLIMITED)

    def _broken(self, bus: str, kv: float, kw_per_phase: int) -> str | None:
        self._set(bus, kv, kw_per_phase)
        if not solve():
            return NO_SOLUTION
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
