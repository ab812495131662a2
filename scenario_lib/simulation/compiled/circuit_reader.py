"""Read the active OpenDSS circuit into arrays, in OpenDSS's own node order, and name what cannot be read.

What stands still in an hour is in the admittance matrix. Loads, generators and PV systems that draw or give another
current than their admittance does become parts between two nodes, see `LoadPart`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from openg2g.grid.opendss import dss
from scipy.sparse import csc_array

from scenario_lib._arrays import Complexes, Floats
from scenario_lib.errors import NotModelledError
from scenario_lib.simulation.compiled.power_flow import (
    CONSTANT_CURRENT,
    CONSTANT_IMPEDANCE,
    CONSTANT_POWER,
    KNOWN_MODELS,
    VOLTAGE_EXPONENTS,
    StopRule,
)

_SYMMETRIC = 1e-9


@dataclass(frozen=True, slots=True)
class LoadPart:
    """One phase of a load, generator or PV system: between two nodes, as places in the node order, or None for ground.

    Attributes:
        name: Of a load, its name; of others with their class, such as "Generator.diesel".
        power_va: Nominal power drawn by this phase (VA), negative where it generates.
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
        admittance: Y, all loads included (S), sparse by columns, rows rising, without zeros, shape (n, n).
        source_a: Current injected by the sources (A), shape (n,).
        base_v: Voltage base of each node (V), shape (n,).
        parts: Parts of all elements that draw another current than their admittance does.
        stop: As the circuit's solution options have it.
    """

    nodes: tuple[str, ...]
    admittance: csc_array
    source_a: Complexes
    base_v: Floats
    parts: tuple[LoadPart, ...]
    stop: StopRule


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
        stop=StopRule(dss.Solution.Convergence(), dss.Solution.MaxIterations(), dss.Solution.MinIterations()),
    )


def voltages_by_node() -> dict[str, complex]:
    """Voltages (V) of the last solution by node name."""
    names = (str(name).lower() for name in dss.Circuit.YNodeOrder())
    return dict(zip(names, _complex(dss.Circuit.YNodeVArray()).tolist(), strict=True))


def _complex(pairs: Sequence[float]) -> Complexes:
    flat = np.array(pairs, float)
    return flat[0::2] + 1j * flat[1::2]


def _admittance(n: int) -> csc_array:
    values, rows, starts = dss.YMatrix.getYsparse(factor=False)
    admittance = csc_array((np.array(values, complex), np.array(rows), np.array(starts)), shape=(n, n))
    admittance.sum_duplicates()
    admittance.eliminate_zeros()
    return admittance


def is_symmetric(admittance: csc_array) -> bool:
    """Whether Y equals its transpose, up to rounding."""
    excess = abs(admittance - admittance.T) - _SYMMETRIC * abs(admittance)
    return bool(np.all(excess.data <= 0))


def _source_currents() -> Complexes:
    dss.YMatrix.ZeroInjCurr()
    dss.YMatrix.GetSourceInjCurrents()
    return _complex(dss.Circuit.YCurrents())


def _base_v(node: str) -> float:
    dss.Circuit.SetActiveBus(node.partition(".")[0])
    return float(dss.Bus.kVBase()) * 1000.0


def _parts(place: dict[str, int]) -> Iterator[LoadPart]:
    for _ in dss.Loads:
        yield from _in_kernel_models(_on_phases(_load(), dss.Loads.Phases(), dss.Loads.IsDelta(), place))
    for _ in dss.Generators:
        yield from _on_phases(_generator(), dss.Generators.Phases(), dss.Generators.IsDelta(), place)
    for _ in dss.PVsystems:
        yield from _on_phases(_pv_system(), int(_property("phases")), _property("conn") == "delta", place)


def _property(name: str) -> str:
    """A property of the active element, lower case."""
    dss.Text.Command(f"? {dss.CktElement.Name()}.{name}")
    return str(dss.Text.Result()).lower()


def _load() -> LoadPart:
    """The active load as a whole; OpenDSS multiplies the power of all that are not fixed."""
    load = dss.Loads
    multiplier = 1.0 if load.Status() == _FIXED else dss.Solution.LoadMult()
    return LoadPart(
        name=str(load.Name()),
        node=None,
        return_node=None,
        model=int(load.Model()),
        power_va=complex(load.kW(), load.kvar()) * 1000.0 * multiplier,
        base_v=float(load.kV()) * 1000.0,
        low_pu=float(_property("vlowpu")),
        min_pu=float(load.Vminpu()),
        max_pu=float(load.Vmaxpu()),
        watt_exponent=float(load.CVRwatts()),
        var_exponent=float(load.CVRvars()),
    )


def _generator() -> LoadPart:
    power_va = complex(dss.Generators.kW(), dss.Generators.kvar()) * 1000.0
    return _source(power_va, int(dss.Generators.Model()))


def _pv_system() -> LoadPart:
    return _source(complex(dss.PVsystems.kW(), dss.PVsystems.kvar()) * 1000.0, int(_property("model")))


def _source(power_va: complex, model: int) -> LoadPart:
    """The active generator or PV system as a whole: out of its band an impedance at once, which `low_pu` 0 says."""
    return LoadPart(
        name=str(dss.CktElement.Name()),
        node=None,
        return_node=None,
        model=model,
        power_va=-power_va,
        base_v=float(_property("kv")) * 1000.0,
        low_pu=0.0,
        min_pu=float(_property("vminpu")),
        max_pu=float(_property("vmaxpu")),
        watt_exponent=0.0,
        var_exponent=0.0,
    )


def _on_phases(whole: LoadPart, phases: int, delta: bool, place: dict[str, int]) -> Iterator[LoadPart]:
    """The active element, one part a phase: in delta from each node to the next, else to its neutral."""
    bus = str(dss.CktElement.BusNames()[0]).partition(".")[0].lower()
    terminals = [place[f"{bus}.{node}"] if node else None for node in dss.CktElement.NodeOrder()]
    base_v = whole.base_v / 3**0.5 if phases > 1 and not delta else whole.base_v
    for phase in range(phases):
        back = terminals[(phase + 1) % len(terminals)] if delta else terminals[-1]
        yield replace(whole, node=terminals[phase], return_node=back, power_va=whole.power_va / phases, base_v=base_v)


def _in_kernel_models(parts: Iterator[LoadPart]) -> Iterator[LoadPart]:
    """Parts of the active load whose model is a special case of others, as these."""
    for part in parts:
        if part.model == _MOTOR:
            yield replace(part, model=VOLTAGE_EXPONENTS, watt_exponent=0.0, var_exponent=2.0)
        elif part.model == _ZIP:
            yield from _zip_parts(part, dss.Loads.ZipV())
        else:
            yield part


def _zip_parts(part: LoadPart, shares: Sequence[float]) -> Iterator[LoadPart]:
    """Constant impedance, current and power side by side, each with the band of its own model."""
    models = (CONSTANT_IMPEDANCE, CONSTANT_CURRENT, CONSTANT_POWER)
    for watts, variable, model in zip(shares[0:3], shares[3:6], models, strict=True):
        yield replace(part, model=model, power_va=complex(part.power_va.real * watts, part.power_va.imag * variable))


_MOTOR, _ZIP = 3, 8
"""OpenDSS's load models of constant watts with quadratic vars, and of shares of impedance, current and power."""
_FIXED = 1

# Elements whose whole effect is in Y or in constant source currents, or that do nothing while controls are off.
_IN_ADMITTANCE = ("vsource", "isource", "line", "transformer", "autotrans", "capacitor", "reactor")
_IDLE = ("regcontrol", "capcontrol", "swtcontrol", "fuse", "relay", "recloser", "energymeter", "monitor", "sensor")
_MODELLED_CLASSES = frozenset(("load", "generator", "pvsystem", *_IN_ADMITTANCE, *_IDLE))
_CONTROLS_OFF = -1
# Solution options as OpenDSS writes them; all are its defaults.
_OPTIONS = {"Algorithm": "Normal", "LoadModel": "PowerFlow", "LoadShapeClass": "None", "Year": "0", "GenMult": "1"}
_SHARES_TOLERANCE = 1e-9
_THREE = 3


def refuse_what_is_not_modelled() -> None:
    """Look at the active circuit.

    Raises:
        NotModelledError: Naming what was found.
    """
    found = what_is_not_modelled()
    if found:
        raise NotModelledError("; ".join(found))


def what_is_not_modelled() -> tuple[str, ...]:
    """Everything in the active circuit that this engine does not model: each kind once, with an example and a count."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for kind, example in _findings():
        counts[kind] += 1
        examples.setdefault(kind, example)
    return tuple(_counted(kind, examples[kind], count) for kind, count in counts.items())


def _counted(kind: str, example: str, count: int) -> str:
    also = f" and {count - 1} more" if count > 1 else ""
    return f"{kind} ({example}{also})" if example else kind


def _findings() -> Iterator[tuple[str, str]]:
    """What is not modelled, as its kind and which element it is."""
    for name in dss.Circuit.AllElementNames():
        kind = str(name).partition(".")[0].lower()
        if kind not in _MODELLED_CLASSES:
            dss.Circuit.SetActiveElement(name)
            if dss.CktElement.Enabled() and not (kind == "storage" and _rests()):
                yield f"elements of class {kind}", str(name)
    if dss.Solution.ControlMode() != _CONTROLS_OFF:
        yield "control loops inside a power flow (OpenDSS's ControlMode is not Off)", ""
    for option, modelled in _OPTIONS.items():
        dss.Text.Command(f"Get {option}")
        if str(dss.Text.Result()) != modelled:
            yield f"the solution option {option} {dss.Text.Result()} (it models {modelled})", ""
    for load in dss.Loads:
        yield from ((kind, f"load {load.Name()}") for kind in _load_findings())
    for _ in dss.Generators:
        yield from ((kind, str(dss.CktElement.Name())) for kind in _generator_findings())
    for _ in dss.PVsystems:
        yield from ((kind, str(dss.CktElement.Name())) for kind in _pv_findings())
    for bus in dss.Circuit.AllBusNames():
        dss.Circuit.SetActiveBus(bus)
        if dss.Bus.kVBase() <= 0:
            yield "buses without a voltage base", f"bus {bus}"


def _rests() -> bool:
    """Whether the active storage neither charges nor discharges nor loses anything."""
    return _property("state") == "idling" and float(_property("%idlingkw")) == 0


def _load_findings() -> Iterator[str]:
    model = int(dss.Loads.Model())
    if model not in (*KNOWN_MODELS, _MOTOR, _ZIP):
        yield f"loads of OpenDSS load model {model}"
    if model == _ZIP:
        *shares, cutoff = dss.Loads.ZipV()
        if max(abs(sum(shares[:3]) - 1), abs(sum(shares[3:]) - 1)) > _SHARES_TOLERANCE:
            yield "loads of OpenDSS load model 8 whose shares do not add up to 1"
        if cutoff > 0:
            yield "loads of OpenDSS load model 8 with a cut-off voltage"
    if dss.Loads.Rneut() >= 0 or dss.Loads.Xneut() > 0:
        yield "loads with a neutral impedance"
    if dss.Loads.CVRCurve():
        yield "loads with a curve of their voltage exponents"


def _generator_findings() -> Iterator[str]:
    model = int(dss.Generators.Model())
    if dss.Generators.IsDelta() and dss.Generators.Phases() < _THREE:
        yield "generators of less than three phases in delta"
    if model not in (CONSTANT_POWER, CONSTANT_IMPEDANCE):
        yield f"generators of OpenDSS generator model {model}"
    if _property("dispmode") != "default" or float(_property("dispvalue")) != 0:
        yield "generators that are dispatched by load level or price"


def _pv_findings() -> Iterator[str]:
    model = int(_property("model"))
    if _property("conn") == "delta" and int(_property("phases")) < _THREE:
        yield "PV systems of less than three phases in delta"
    if model not in (CONSTANT_POWER, CONSTANT_IMPEDANCE):
        yield f"PV systems of OpenDSS PV system model {model}"
    if _is_set("limitcurrent"):
        yield "PV systems that limit their current"
    if _is_set("balanced"):
        yield "PV systems that follow the balanced voltage"


def _is_set(name: str) -> bool:
    return _property(name) in ("yes", "true")
