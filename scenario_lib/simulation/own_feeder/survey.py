"""What a circuit is made of, and where its voltages are without a datacenter."""

from collections import Counter
from dataclasses import dataclass

from openg2g.grid.opendss import OpenDSSGrid, dss

from scenario_lib.simulation.own_feeder.standing import CountedNodes, base_kv, phases_of


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
        other_elements: Number of elements of any further class.
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
    other_elements: dict[str, int]
    lowest: VoltageExtreme
    highest: VoltageExtreme
    losses_kw: float


_COUNTED_APART = ("vsource", "line", "load", "transformer", "regcontrol", "capacitor")


def survey(nodes: CountedNodes) -> Survey:
    """Look at the circuit that OpenDSS holds, after a solution."""
    buses = [str(bus) for bus in dss.Circuit.AllBusNames()]
    classes = Counter(str(name).partition(".")[0].lower() for name in dss.Circuit.AllElementNames())
    voltages = nodes.voltages_pu()
    low, high = int(voltages.argmin()), int(voltages.argmax())
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
        other_elements={name: count for name, count in sorted(classes.items()) if name not in _COUNTED_APART},
        lowest=VoltageExtreme(nodes.names[low], float(voltages[low])),
        highest=VoltageExtreme(nodes.names[high], float(voltages[high])),
        losses_kw=float(dss.Circuit.Losses()[0]) / 1e3,
    )


def _taps() -> dict[str, float]:
    taps = {}
    for name, (transformer, winding) in OpenDSSGrid._cache_regcontrol_map().items():
        dss.Transformers.Name(transformer)
        dss.Transformers.Wdg(winding)
        taps[name] = round(float(dss.Transformers.Tap()), 6)
    return taps
