"""A user's circuit in OpenDSS as a rollout would start it, but without a datacenter.

Source voltage and taps are set, controls are off. For a circuit without an experiment the taps are those at which
OpenDSS's own regulator controls come to rest.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from opendssdirect import DSSException
from openg2g.grid.opendss import OpenDSSGrid, dss

from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.feeder import Limits
from scenario_lib.feeders.sites import DatacenterPhysics
from scenario_lib.simulation.opendss import compile_circuit, opendss_held, require_voltage

PHASES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a circuit stands before a datacenter comes.

    Attributes:
        circuit: The OpenDSS file.
        source_pu: Source voltage (pu); None leaves the circuit's own.
        taps_pu: Regulator control to tap ratio (pu); None lets the controls settle once.
        exclude_buses: Buses that no measure counts.
    """

    circuit: Path
    source_pu: float | None = None
    taps_pu: dict[str, float] | None = None
    exclude_buses: tuple[str, ...] = ()
    limits: Limits = Limits()
    datacenter: DatacenterPhysics = field(default_factory=DatacenterPhysics)


def standing_of(experiment: Experiment) -> Standing:
    """As the experiment's rollouts start."""
    feeder = experiment.feeder
    return Standing(
        Path(feeder.circuit),
        feeder.source_pu,
        feeder.initial_taps_pu,
        feeder.exclude_buses,
        experiment.limits,
        experiment.datacenter,
    )


@contextmanager
def started(standing: Standing) -> Iterator[None]:
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


def _compile(standing: Standing) -> None:
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
    dss.Text.Command("Set ControlMode=Off")
    _set_taps(standing.taps_pu or {})
    solve()
    if not dss.Solution.Converged():
        raise DataFileError(
            f"{standing.circuit}: the power flow does not converge, even without a datacenter; correct the circuit "
            f"(loads and line lengths in their units?)"
        )
    require_voltage(standing.circuit)


def _set_taps(taps_pu: dict[str, float]) -> None:
    wanted = {name.lower(): tap for name, tap in taps_pu.items()}
    for name, (transformer, winding) in OpenDSSGrid._cache_regcontrol_map().items():
        if name in wanted:
            dss.Text.Command(f"Edit Transformer.{transformer} Wdg={winding} Tap={wanted[name]:.6f}")


def solve() -> bool:
    """Solve from a start that does not depend on what was solved before; whether it converged."""
    dss.Solution.SolveDirect()
    dss.Solution.SolveNoControl()
    return bool(dss.Solution.Converged())


@dataclass(frozen=True, slots=True)
class CountedNodes:
    """The bus-phases that count, such as "671.1", and where OpenDSS keeps their voltages, shape (N,)."""

    names: tuple[str, ...]
    places: NDArray[np.int64]

    def voltages_pu(self) -> NDArray[np.float64]:
        """Voltages of the last solution (pu), shape (N,)."""
        return np.asarray(dss.Circuit.AllBusMagPu())[self.places]


def counted_nodes(exclude_buses: tuple[str, ...]) -> CountedNodes:
    """All nodes of phases 1 to 3 with a voltage base, apart from those of excluded buses."""
    left_out = {bus.lower() for bus in exclude_buses}
    counted = [
        (place, str(name))
        for place, name in enumerate(dss.Circuit.AllNodeNames())
        if _bus_of(name) not in left_out and int(str(name).rpartition(".")[2]) in PHASES and base_kv(_bus_of(name))
    ]
    return CountedNodes(tuple(name for _, name in counted), np.array([place for place, _ in counted], np.int64))


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
