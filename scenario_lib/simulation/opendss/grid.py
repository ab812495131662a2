"""The feeder of one rollout as an openg2g grid: OpenDSS, with the scenario's PV systems and loads attached.

openg2g's own attachments would put elements on phases that a bus does not have, and leave their model at 0.95 pu;
hence the elements are added here, after openg2g's start-up and before the first step, and the node map is read last.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from openg2g.grid.base import BusVoltages, PhaseVoltages
from openg2g.grid.config import TapPosition
from openg2g.grid.opendss import OpenDSSGrid, dss

from scenario_lib._arrays import Floats
from scenario_lib.errors import EngineInUseError, PowerFlowError
from scenario_lib.feeders.experiment import Feeder
from scenario_lib.scenario.model import Scenario, ScenarioPower
from scenario_lib.simulation.opendss.engine import circuits_read, opendss_held, reading, require_voltage

_PHASES = (1, 2, 3)
_LARGEST_POWER_FACTOR = 0.999999
"""openg2g clamps power factors to this, so that a PV system at 1.0 still has 1.4 var per kW."""

_VMINPU = 0.85
"""Voltage below which the attached elements turn from constant power to constant impedance (pu)."""


@dataclass(frozen=True, slots=True)
class _Attachment:
    """Single-phase elements at one bus and what they draw.

    Attributes:
        element: Name of the OpenDSS load elements, before the phase.
        kw: Power drawn on each phase at every step (kW), negative for generation.
        kvar_per_kw: Reactive power per active power.
    """

    element: str
    power: ScenarioPower
    kw: Floats
    kvar_per_kw: float


class ScenarioGrid(OpenDSSGrid):  # type: ignore[misc]
    """OpenDSS with a scenario's PV systems and loads; every solve is checked for convergence.

    Raises:
        PowerFlowError: From `start`, `step` and `estimate_sensitivity`, if OpenDSS does not converge.
        DataFileError: From `start`, if OpenDSS cannot compile the circuit, or its source gives no voltage.
        EngineInUseError: From everything after `start`, if another circuit has been compiled in this process since.
    """

    def __init__(self, feeder: Feeder, scenario: Scenario, n_steps: int, dt_s: Fraction = Fraction(1)) -> None:
        circuit = Path(feeder.circuit)
        super().__init__(
            dss_case_dir=circuit.parent,
            dss_master_file=circuit.name,
            dt_s=dt_s,
            source_pu=feeder.source_pu,
            initial_tap_position=TapPosition(regulators=feeder.initial_taps_pu) if feeder.initial_taps_pu else None,
            exclude_buses=feeder.exclude_buses,
        )
        self._attachments = _attachments(scenario, np.arange(n_steps, dtype=np.float64) * float(dt_s))
        self._element_names: list[list[str]] = []
        self._circuit = circuit
        self._circuit_number = 0
        self._second: int | None = None
        self._estimating = False

    def start(self) -> None:
        """Compile the circuit, solve it once, then add the scenario's elements at 0 kW without another solve."""
        self._second = None
        with opendss_held():
            with reading(self._circuit) as readable:
                self._case_dir = readable.parent
                super().start()
            self._circuit_number = circuits_read()
            require_voltage(self._circuit)
            for attachment in self._dc_attachments.values():
                _join_phases(attachment)
            self._element_names = [_add_elements(attachment) for attachment in self._attachments]
            attached = [attachment.load_names for attachment in self._dc_attachments.values()]
            _exempt_from_load_multiplier(chain(*attached, *self._element_names))
            self._cache_node_map()
            self._cache_buses_with_phases()
            self._v_index = self._build_v_index()
            self._build_vmag_indices()
            self._build_snapshot_indices()

    def step(self, clock: Any, power_samples_w: Any, events: Any) -> Any:
        """Set the scenario's powers of this step, then let openg2g set the datacenters' and solve."""
        with self._engine():
            self._second = int(clock.time_s)
            index = round(clock.time_s / float(self.dt_s))
            for attachment, names in zip(self._attachments, self._element_names, strict=True):
                kw = float(attachment.kw[index])
                for name in names:
                    dss.Loads.Name(name)
                    dss.Loads.kW(kw)
                    dss.Loads.kvar(kw * attachment.kvar_per_kw)
            return super().step(clock, power_samples_w, events)

    def estimate_sensitivity(self, perturbation_kw: float = 100.0, dc: Any = None) -> Any:
        """As openg2g's, with a diverged power flow reported as inside the estimate."""
        with self._engine():
            self._estimating = True
            try:
                return super().estimate_sensitivity(perturbation_kw, dc)
            finally:
                self._estimating = False

    def voltages_vector(self) -> Floats:
        """Voltages (pu) in `v_index` order; never those of a power flow that did not converge."""
        with self._engine():
            self._require_converged()
            return np.asarray(super().voltages_vector())

    def recorded_voltages(self) -> Floats:
        """Voltages (pu) in `v_index` order as of the last step, before any sensitivity estimate after it."""
        snapshot: VoltageSnapshot = self.state.voltages
        return np.asarray(snapshot.magnitudes[self._v_index_to_vmag])

    def _solve(self) -> None:
        super()._solve()
        self._require_converged()

    def _read_current_taps(self) -> TapPosition | None:
        # openg2g's own cannot say that a feeder has no regulator.
        return super()._read_current_taps() if self._reg_map else None

    @contextmanager
    def _engine(self) -> Iterator[None]:
        """OpenDSS, as long as this grid's circuit is the active one."""
        with opendss_held():
            if self._circuit_number != circuits_read():
                raise EngineInUseError(
                    "another circuit was compiled in this process since; OpenDSS has one circuit per process. Finish "
                    "one simulation before starting the next, or run each in a process of its own"
                )
            yield

    def _require_converged(self) -> None:
        if not dss.Solution.Converged():
            started = self._second is not None
            during = "sensitivity estimate" if self._estimating else "step" if started else "start-up"
            raise PowerFlowError(self._second, during)

    def _snapshot_bus_voltages(self) -> BusVoltages:
        return VoltageSnapshot(self.all_buses, self._snap_indices, np.array(dss.Circuit.AllBusMagPu()))


class VoltageSnapshot(BusVoltages):  # type: ignore[misc]
    """openg2g's voltages of one step, with its dictionary of buses made only if somebody asks for it.

    Attributes:
        magnitudes: All node voltages (pu), in OpenDSS's order, shape (nodes,).
    """

    def __init__(self, buses: Sequence[str], indices: Any, magnitudes: Floats) -> None:
        object.__setattr__(self, "_buses", buses)
        object.__setattr__(self, "_indices", indices)
        object.__setattr__(self, "magnitudes", magnitudes)

    @functools.cached_property
    def _data(self) -> dict[str, PhaseVoltages]:
        volts = np.append(self.magnitudes, np.nan)[self._indices]
        return {bus: PhaseVoltages(*map(float, row)) for bus, row in zip(self._buses, volts, strict=True)}


def tan_phi(power_factor: float) -> float:
    """Reactive per active power at a power factor, clamped as openg2g does."""
    return math.tan(math.acos(min(power_factor, _LARGEST_POWER_FACTOR)))


def _attachments(scenario: Scenario, times_s: Floats) -> list[_Attachment]:
    pv = [
        _Attachment(f"ScenarioPV_{i}", system, -system.kw_per_phase(times_s), tan_phi(system.power_factor))
        for i, system in enumerate(scenario.pv_systems)
    ]
    loads = [
        _Attachment(f"ScenarioLoad_{i}", load, load.kw_per_phase(times_s), tan_phi(load.power_factor))
        for i, load in enumerate(scenario.tvl)
    ]
    return pv + loads


def _join_phases(attachment: Any) -> None:
    """Put a datacenter's elements in delta between phases: A to B, B to C, C to A.

    openg2g leaves them between phase and ground at the line-to-line voltage, where they draw a third of their power.
    """
    if attachment.connection_type == "delta":
        for name, phase in zip(attachment.load_names, _PHASES, strict=True):
            dss.Text.Command(f"Edit Load.{name} bus1={attachment.bus}.{phase}.{phase % 3 + 1}")


def _exempt_from_load_multiplier(names: Iterable[str]) -> None:
    """A circuit's load multiplier is for its own loads; what a scenario attaches has its power already."""
    if dss.Solution.LoadMult() != 1.0:
        for name in names:
            dss.Text.Command(f"Edit Load.{name} status=Fixed")


def _add_elements(attachment: _Attachment) -> list[str]:
    """One element per phase that the bus has; returns their names."""
    power = attachment.power
    dss.Circuit.SetActiveBus(power.bus)
    phases = sorted({int(node) for node in dss.Bus.Nodes()} & set(_PHASES))
    names = []
    for phase in phases:
        name = f"{attachment.element}_{'ABC'[phase - 1]}"
        dss.Text.Command(
            f"New Load.{name} bus1={power.bus}.{phase} phases=1 conn=wye kV={power.bus_kv / math.sqrt(3):.6f} "
            f"kW=0 kvar=0 model=1 vminpu={_VMINPU}"
        )
        names.append(name)
    return names
