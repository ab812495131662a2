"""Does the circuit have what the experiment names? OpenDSS itself would make up a missing bus and carry on."""

from collections.abc import Iterator
from pathlib import Path

from opendssdirect import DSSException
from openg2g.grid.opendss import OpenDSSGrid, dss

from scenario_lib.errors import DataFileError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.simulation.opendss import compile_circuit, opendss_held, require_voltage

_THREE_PHASES = {1, 2, 3}
# Line-to-line kV given for a bus may be rounded, as 4.16 for 4.16 kV or 24.9 for 24.9 kV.
_KV_TOLERANCE = 0.02


def check_feeder(experiment: Experiment) -> None:
    """Compile the circuit and compare it with the experiment's names, phases and voltages.

    Raises:
        DataFileError: Naming the circuit file and everything that does not fit.
    """
    faults = feeder_faults(experiment)
    if faults:
        raise DataFileError(f"{experiment.feeder.circuit}: {'; '.join(faults)}; correct the experiment or the circuit")


def feeder_faults(experiment: Experiment) -> list[str]:
    """Everything of the experiment that does not fit its circuit.

    Raises:
        MissingDataError: A file of the circuit is not there.
        DataFileError: OpenDSS cannot compile the circuit, or its source gives no voltage.
    """
    circuit = Path(experiment.feeder.circuit)
    with opendss_held():
        compile_circuit(circuit)
        try:
            dss.Text.Command("MakeBusList")  # a circuit that does not calculate voltage bases has none yet
            faults = list(_faults(experiment))
            _require_voltage(experiment)  # voltage bases come from voltages, so a dead source looks like many faults
        except DSSException as error:
            raise DataFileError(f"{circuit}: OpenDSS cannot compile it: {error}") from None
    return faults


def _require_voltage(experiment: Experiment) -> None:
    dss.Text.Command(f"Edit Vsource.source pu={experiment.feeder.source_pu}")
    dss.Text.Command("Set ControlMode=Off")
    dss.Solution.SolveNoControl()
    require_voltage(Path(experiment.feeder.circuit))


def _faults(experiment: Experiment) -> Iterator[str]:
    regulators = OpenDSSGrid._cache_regcontrol_map()
    for regulator in experiment.feeder.initial_taps_pu:
        if regulator.lower() not in regulators:
            yield f"no regulator control {regulator!r} (it has {', '.join(sorted(regulators)) or 'none'})"
    buses = {str(bus).lower() for bus in dss.Circuit.AllBusNames()}
    for site in experiment.sites:
        yield from _bus_faults(f"site {site.name}", site.bus, site.bus_kv, buses)
        if site.bus.lower() in buses and not _phases(site.bus) >= _THREE_PHASES:
            yield f"site {site.name}: bus {site.bus!r} lacks a phase; a datacenter needs all three"
    for kind, elements in (("PV system", experiment.pv_systems), ("load", experiment.loads)):
        for index, element in enumerate(elements):
            yield from _bus_faults(f"{kind} {index}", element.bus, element.bus_kv, buses)


def _bus_faults(what: str, bus: str, bus_kv: float, buses: set[str]) -> Iterator[str]:
    if bus.lower() not in buses:
        yield f"{what}: no bus {bus!r}"
        return
    dss.Circuit.SetActiveBus(bus)
    base_kv = float(dss.Bus.kVBase()) * 3**0.5
    if base_kv == 0:
        yield f"{what}: bus {bus!r} has no voltage base (end the circuit with Set VoltageBases and CalcVoltageBases)"
    elif abs(base_kv - bus_kv) > _KV_TOLERANCE * base_kv:
        yield f"{what}: bus_kv is {bus_kv}, but bus {bus!r} has {base_kv:.4g} kV line to line"
    if not _phases(bus):
        yield f"{what}: bus {bus!r} has no phase"


def _phases(bus: str) -> set[int]:
    dss.Circuit.SetActiveBus(bus)
    return {int(node) for node in dss.Bus.Nodes()} & _THREE_PHASES
