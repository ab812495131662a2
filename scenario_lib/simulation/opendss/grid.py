"""The feeder of one rollout as an openg2g grid: OpenDSS, with the scenario's PV systems and loads attached.

openg2g's own attachments would put elements on phases that a bus does not have, and leave their model at 0.95 pu;
hence the elements are added here, after openg2g's start-up and before the first step, and the node map is read last.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from openg2g.grid.config import TapPosition
from openg2g.grid.opendss import dss

from scenario_lib._arrays import Floats
from scenario_lib.errors import EngineInUseError, PowerFlowError
from scenario_lib.feeders.experiment import Feeder
from scenario_lib.scenario.model import Scenario, ScenarioPower
from scenario_lib.simulation.opendss.engine import circuits_read, opendss_held, reading, require_voltage
from scenario_lib.simulation.opendss.openg2g_internals import OpenDSSGridWithHooks

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


class ScenarioGrid(OpenDSSGridWithHooks):
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
        self._capacitor_steps = feeder.initial_capacitor_steps
        self._circuit_number = 0
        self._second: int | None = None
        self._estimating = False

    def start(self) -> None:
        """Compile the circuit, solve it once, then add the scenario's elements at 0 kW without another solve."""
        self._second = None
        with opendss_held():
            self.start_from(reading(self._circuit))
            self._circuit_number = circuits_read()
            require_voltage(self._circuit)
            for datacenter in self.attached_datacenters:
                _join_phases(datacenter)
            self._element_names = [_add_elements(attachment) for attachment in self._attachments]
            attached = [datacenter.load_names for datacenter in self.attached_datacenters]
            _exempt_from_load_multiplier(chain(*attached, *self._element_names))
            self.index_nodes()

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

    @property
    def load_groups(self) -> list[tuple[str, ...]]:
        """Names of the loads of one power each: each phase of the datacenters, then each PV system and each load."""
        phases = [(str(name),) for datacenter in self.attached_datacenters for name in datacenter.load_names]
        return [*phases, *map(tuple, self._element_names)]

    def before_start_solve(self) -> None:
        """Switch capacitors as the feeder has them."""
        set_capacitor_steps(self._capacitor_steps)

    def after_solve(self) -> None:
        """Refuse a power flow that did not converge."""
        self._require_converged()

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


def set_capacitor_steps(steps: Mapping[str, Sequence[int]]) -> None:
    """Open and close steps of capacitors of the active circuit, by their names."""
    for name, states in steps.items():
        dss.Capacitors.Name(name)
        dss.Capacitors.States(list(states))


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
