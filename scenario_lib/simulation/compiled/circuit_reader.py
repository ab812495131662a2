"""Read the active OpenDSS circuit into arrays, in OpenDSS's own node order.

What of a circuit the compiled engine does not model, found by name before anything is computed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from openg2g.grid.opendss import dss

from scenario_lib._arrays import Complexes, Floats
from scenario_lib.errors import NotModelledError
from scenario_lib.simulation.compiled.power_flow import CONSTANT_IMPEDANCE, KNOWN_MODELS

_SYMMETRIC = 1e-9


@dataclass(frozen=True, slots=True)
class LoadPart:
    """One phase of one load: between two nodes, as positions in the node order, or None for ground.

    Attributes:
        power_va: Nominal power of this phase (VA).
        base_v: Nominal voltage across it (V).
        low_pu, min_pu, max_pu: Where the model changes, as parts of `base_v`.
    """

    name: str
    node: int | None
    return_node: int | None
    model: int
    power_va: complex
    base_v: float
    low_pu: float
    min_pu: float
    max_pu: float
    watt_exponent: float
    var_exponent: float


@dataclass(frozen=True, slots=True)
class RawCircuit:
    """The circuit as OpenDSS has it; n nodes.

    Attributes:
        nodes: Names such as "650.1", lower case, in the order of Y.
        admittance: Y, all loads included (S), dense, shape (n, n).
        source_a: Current injected by the sources (A), shape (n,).
        base_v: Voltage base of each node (V), shape (n,).
        parts: Parts of all loads that draw another current than their admittance does.
    """

    nodes: tuple[str, ...]
    admittance: Complexes
    source_a: Complexes
    base_v: Floats
    parts: tuple[LoadPart, ...]


def read_circuit() -> RawCircuit:
    """Read the active circuit, just solved."""
    nodes = tuple(str(name).lower() for name in dss.Circuit.YNodeOrder())
    place = {name: position for position, name in enumerate(nodes)}
    return RawCircuit(
        nodes=nodes,
        admittance=_admittance(len(nodes)),
        source_a=_source_currents(),
        base_v=np.array([_base_v(name) for name in nodes]),
        parts=tuple(part for part in _parts(place) if part.model != CONSTANT_IMPEDANCE),
    )


def voltages_by_node() -> dict[str, complex]:
    """Voltages (V) of the last solution by node name."""
    names = (str(name).lower() for name in dss.Circuit.YNodeOrder())
    return dict(zip(names, _complex(dss.Circuit.YNodeVArray()).tolist(), strict=True))


def _complex(pairs: Sequence[float]) -> Complexes:
    flat = np.array(pairs, float)
    return flat[0::2] + 1j * flat[1::2]


def _admittance(n: int) -> Complexes:
    values, rows, starts = dss.YMatrix.getYsparse(factor=False)
    full = np.zeros((n, n), complex)
    columns = np.repeat(np.arange(n), np.diff(starts))
    np.add.at(full, (np.asarray(rows), columns), np.asarray(values))
    return full


def is_symmetric(admittance: Complexes) -> bool:
    """Whether Y equals its transpose, up to rounding."""
    return bool(np.all(np.abs(admittance - admittance.T) <= _SYMMETRIC * np.abs(admittance)))


def _source_currents() -> Complexes:
    dss.YMatrix.ZeroInjCurr()
    dss.YMatrix.GetSourceInjCurrents()
    return _complex(dss.Circuit.YCurrents())


def _base_v(node: str) -> float:
    dss.Circuit.SetActiveBus(node.partition(".")[0])
    return float(dss.Bus.kVBase()) * 1000.0


def _parts(place: dict[str, int]) -> Iterator[LoadPart]:
    for load in dss.Loads:
        name, phases, delta = str(load.Name()), int(load.Phases()), bool(load.IsDelta())
        bus = str(dss.CktElement.BusNames()[0]).partition(".")[0].lower()
        terminals = [place[f"{bus}.{node}"] if node else None for node in dss.CktElement.NodeOrder()]
        base_kv = load.kV() / 3**0.5 if phases > 1 and not delta else load.kV()
        dss.Text.Command(f"? Load.{name}.vlowpu")
        for phase in range(phases):
            yield LoadPart(
                name=name,
                node=terminals[phase],
                return_node=terminals[(phase + 1) % len(terminals)] if delta else None,
                model=int(load.Model()),
                power_va=complex(load.kW(), load.kvar()) * 1000.0 / phases,
                base_v=float(base_kv) * 1000.0,
                low_pu=float(dss.Text.Result()),
                min_pu=float(load.Vminpu()),
                max_pu=float(load.Vmaxpu()),
                watt_exponent=float(load.CVRwatts()),
                var_exponent=float(load.CVRvars()),
            )


# Elements whose whole effect is in Y or in constant source currents, or that do nothing while controls are off.
_IN_ADMITTANCE = ("vsource", "line", "transformer", "capacitor", "reactor")
_IDLE = ("regcontrol", "capcontrol", "energymeter", "monitor")
_MODELLED_CLASSES = frozenset(("load", *_IN_ADMITTANCE, *_IDLE))
_CONTROLS_OFF = -1
# Solution options as OpenDSS writes them; all are its defaults.
_OPTIONS = {"Algorithm": "Normal", "Tolerance": "0.0001", "MaxIterations": "15", "MinIterations": "2"}


def refuse_what_is_not_modelled() -> None:
    """Look at the active circuit.

    Raises:
        NotModelledError: Naming the first thing found.
    """
    for found in _findings():
        raise NotModelledError(found)


def what_is_not_modelled() -> tuple[str, ...]:
    """Everything in the active circuit that this engine does not model, by name."""
    return tuple(_findings())


def _findings() -> Iterator[str]:
    for name in dss.Circuit.AllElementNames():
        if str(name).partition(".")[0].lower() not in _MODELLED_CLASSES:
            yield f"the element {name}"
    if dss.Solution.ControlMode() != _CONTROLS_OFF:
        yield "control loops inside a power flow (OpenDSS's ControlMode is not Off)"
    if dss.Solution.LoadMult() != 1.0:
        yield f"a load multiplier (LoadMult is {dss.Solution.LoadMult()})"
    for option, modelled in _OPTIONS.items():
        dss.Text.Command(f"Get {option}")
        if str(dss.Text.Result()) != modelled:
            yield f"the solution option {option} {dss.Text.Result()} (it models {modelled})"
    for load in dss.Loads:
        yield from _load_findings(str(load.Name()))
    for bus in dss.Circuit.AllBusNames():
        dss.Circuit.SetActiveBus(bus)
        if dss.Bus.kVBase() <= 0:
            yield f"the bus {bus} without a voltage base"


def _load_findings(name: str) -> Iterator[str]:
    model, phases, delta = int(dss.Loads.Model()), int(dss.Loads.Phases()), bool(dss.Loads.IsDelta())
    nodes = list(dss.CktElement.NodeOrder())
    if model not in KNOWN_MODELS:
        yield f"load {name} of OpenDSS load model {model}"
    if delta and phases == 2:
        yield f"load {name}: two phases in delta"
    if not delta and nodes[-1] != 0:
        yield f"load {name}: a neutral that is not grounded"
    if not delta and (dss.Loads.Rneut() >= 0 or dss.Loads.Xneut() > 0):
        yield f"load {name}: a neutral impedance"
    if dss.Loads.CVRCurve():
        yield f"load {name}: the curve {dss.Loads.CVRCurve()} of its voltage exponents"
    if not dss.CktElement.Enabled():
        yield f"load {name}, which is disabled"
