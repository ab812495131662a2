"""All that `scenario-lib feeder check` finds out about a user's feeder, and how its buses are joined.

OpenDSS itself would make up a bus that an experiment names and the circuit lacks, and carry on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opendssdirect import DSSException
from openg2g.grid.opendss import dss

from scenario_lib._values import few, likely
from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.circuit_files import FILE_NAME, Position, read_bus_coordinates
from scenario_lib.feeders.experiment import Experiment, Feeder
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.feeders.sites import Site
from scenario_lib.models.cards import model_cards
from scenario_lib.simulation.compiled.circuit import why_not_modelled
from scenario_lib.simulation.opendss.engine import compile_circuit, opendss_held, require_voltage
from scenario_lib.simulation.opendss.hosting import (
    BaseCase,
    Hosting,
    Survey,
    base_case_of,
    counted_nodes,
    hosting_capacities,
    started,
    survey,
)
from scenario_lib.simulation.opendss.openg2g_internals import regulator_windings


@dataclass(frozen=True, slots=True)
class Topology:
    """A circuit to be drawn.

    Attributes:
        branches: Pairs of buses, lower case, each once, in OpenDSS's order.
        positions: Where buses are, (x, y) in arbitrary units; buses without a position are left out.
    """

    branches: tuple[tuple[str, str], ...]
    positions: dict[str, Position]


def read_topology(feeder: Feeder) -> Topology:
    """Branches and positions of a feeder; positions from the file beside its circuit, else from the circuit itself.

    Has OpenDSS compile the circuit, which ends whatever else it was simulating in this process.

    Raises:
        MissingDataError: No bus has a position.
        DataFileError: OpenDSS cannot compile the circuit, or the file of positions is not one.
    """
    positions = read_bus_coordinates(Path(feeder.circuit))
    with opendss_held():
        compile_circuit(Path(feeder.circuit))
        try:
            dss.Text.Command("MakeBusList")
            branches = tuple(dict.fromkeys(_branches()))
            positions = dict(_own_positions()) if positions is None else positions
        except DSSException as error:
            raise DataFileError(f"{feeder.circuit}: OpenDSS cannot compile it: {error}") from None
    if not positions:
        raise MissingDataError(
            f"{feeder.circuit}: its buses have no coordinates, so it cannot be drawn; put a {FILE_NAME} with the "
            f"columns bus, x and y beside it, or BusCoords into it"
        )
    return Topology(branches, positions)


def _branches() -> Iterator[tuple[str, str]]:
    for elements in (dss.Lines, dss.Transformers):
        for _ in elements:
            first, *others = (str(name).partition(".")[0].lower() for name in dss.CktElement.BusNames())
            for other in others:
                if other != first:
                    yield first, other


def _own_positions() -> Iterator[tuple[str, Position]]:
    for name in dss.Circuit.AllBusNames():
        dss.Circuit.SetActiveBus(name)
        if dss.Bus.Coorddefined():
            yield str(name).lower(), (float(dss.Bus.X()), float(dss.Bus.Y()))


_THREE_PHASES = {1, 2, 3}
# Line-to-line kV given for a bus may be rounded, as 4.16 for 4.16 kV or 24.9 for 24.9 kV.
_KV_TOLERANCE = 0.02


def check_feeder(experiment: Experiment) -> None:
    """Compile the circuit and compare it with the experiment's names, phases and voltages.

    Raises:
        DataFileError: Naming the circuit file and everything that does not fit.
    """
    faults = _feeder_faults(experiment)
    if faults:
        raise DataFileError(f"{experiment.feeder.circuit}: {few(faults, '; ')}; correct the experiment or the circuit")


def _feeder_faults(experiment: Experiment) -> list[str]:
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
    if experiment.feeder.source_pu is not None:
        dss.Text.Command(f"Edit Vsource.source pu={experiment.feeder.source_pu}")
    dss.Text.Command("Set ControlMode=Off")
    dss.Solution.SolveNoControl()
    require_voltage(Path(experiment.feeder.circuit))


def _faults(experiment: Experiment) -> Iterator[str]:
    regulators = regulator_windings()
    for regulator in experiment.feeder.initial_taps_pu:
        if regulator.lower() not in regulators:
            yield f"no regulator control {regulator!r} (it has {few(sorted(regulators)) or 'none'})"
    yield from _capacitor_faults(experiment)
    buses = {str(bus).lower() for bus in dss.Circuit.AllBusNames()}
    for site in experiment.sites:
        yield from _bus_faults(f"site {site.name}", site.bus, site.bus_kv, buses)
        if site.bus.lower() in buses and not _phases(site.bus) >= _THREE_PHASES:
            yield f"site {site.name}: bus {site.bus!r} lacks a phase; a datacenter needs all three"
    for kind, elements in (("PV system", experiment.pv_systems), ("load", experiment.loads)):
        for index, element in enumerate(elements):
            yield from _bus_faults(f"{kind} {index}", element.bus, element.bus_kv, buses)


def _capacitor_faults(experiment: Experiment) -> Iterator[str]:
    known = {str(name).lower() for name in dss.Capacitors.AllNames()} if dss.Capacitors.Count() else set()
    for capacitor, steps in experiment.feeder.initial_capacitor_steps.items():
        if capacitor.lower() not in known:
            yield f"no capacitor {capacitor!r} (it has {few(sorted(known)) or 'none'})"
            continue
        dss.Capacitors.Name(capacitor)
        if dss.Capacitors.NumSteps() != len(steps):
            yield f"capacitor {capacitor!r} has {dss.Capacitors.NumSteps()} steps, initial_capacitor_steps {len(steps)}"


def _bus_faults(what: str, bus: str, bus_kv: float, buses: set[str]) -> Iterator[str]:
    if bus.lower() not in buses:
        yield f"{what}: no bus {bus!r} ({likely(bus, sorted(buses))})"
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


@dataclass(frozen=True, slots=True)
class SiteDemand:
    """What a site draws with all its replicas, beside what its bus can host.

    Attributes:
        least_kw_per_phase, most_kw_per_phase: With all models at their smallest or largest feasible batch size.
        hosting_kw_per_phase: Of its bus; None if that could not be determined.
    """

    site: str
    bus: str
    least_kw_per_phase: float
    most_kw_per_phase: float
    hosting_kw_per_phase: int | None


@dataclass(frozen=True, slots=True)
class FeederReport:
    """A checked feeder.

    Attributes:
        faults: What of the experiment does not fit the circuit.
        not_modelled: What keeps the compiled engine from it, by name; the reference engine would be used.
        settled_taps: Whether the taps are those that the circuit's own controls settled at.
        sites: Of the experiment; of models whose figures are known only.
    """

    path: Path
    limits_pu: tuple[float, float]
    power_factor: float
    w_per_gpu: float
    faults: tuple[str, ...]
    not_modelled: tuple[str, ...]
    settled_taps: bool
    found: Survey
    hosting: tuple[Hosting, ...]
    sites: tuple[SiteDemand, ...]

    def gpus(self, hosting: Hosting) -> int:
        """GPUs whose power alone, without anything else in the datacenter, is the capacity of a bus."""
        return int(3e3 * hosting.kw_per_phase / self.w_per_gpu)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        hosting = [{**asdict(host), "gpus": self.gpus(host)} for host in self.hosting]
        return {**asdict(self), "path": str(self.path), "hosting": hosting}


def check_own_feeder(path: Path, w_per_gpu: float, buses: Sequence[str] = ()) -> FeederReport:
    """Check an experiment's TOML file, or a bare OpenDSS circuit.

    Args:
        w_per_gpu: Power of one GPU, by which capacities are also given as numbers of GPUs (W).
        buses: Determine the capacity of these only; none means all.

    Raises:
        UnknownNameError: One of `buses` cannot host a datacenter.
        MissingDataError, DataFileError: A file is missing or is not what it should be.
    """
    experiment = load_experiment(path) if path.suffix == ".toml" else None
    standing = BaseCase(path) if experiment is None else base_case_of(experiment)
    faults = () if experiment is None else tuple(_feeder_faults(experiment))
    with started(standing):
        nodes = counted_nodes(standing.exclude_buses)
        found, not_modelled = survey(nodes, standing.limits), why_not_modelled()
        hosting = tuple(hosting_capacities(standing, nodes, buses))
    return FeederReport(
        path=path,
        limits_pu=(standing.limits.v_min_pu, standing.limits.v_max_pu),
        power_factor=standing.datacenter.power_factor,
        w_per_gpu=w_per_gpu,
        faults=faults,
        not_modelled=not_modelled,
        settled_taps=standing.taps_pu is None,
        found=found,
        hosting=hosting,
        sites=tuple(_demands(experiment, hosting)) if experiment is not None else (),
    )


def _demands(experiment: Experiment, hosting: tuple[Hosting, ...]) -> Iterator[SiteDemand]:
    capacities = {host.bus.lower(): host.kw_per_phase for host in hosting}
    for site in experiment.sites:
        powers = _kw_per_phase(site, experiment)
        if powers is not None:
            yield SiteDemand(site.name, site.bus, *powers, capacities.get(site.bus.lower()))


def _kw_per_phase(site: Site, experiment: Experiment) -> tuple[float, float] | None:
    """Power with all models at their smallest and largest feasible batch size; None if a model is not known."""
    cards = {card.spec.cache_hash(): card for card in model_cards()}
    least_w, most_w = 0.0, 0.0
    for deployment in site.models:
        spec = experiment.spec(deployment.label)
        card = cards.get(spec.cache_hash())
        if card is None:
            return None
        power_w = {row.batch_size: row.power_w for row in card.figures}
        least_w += deployment.replicas * power_w[min(spec.feasible_batch_sizes)]
        most_w += deployment.replicas * power_w[max(spec.feasible_batch_sizes)]
    return site.base_kw_per_phase + least_w / 3e3, site.base_kw_per_phase + most_w / 3e3
