"""A scenario on the compiled engine as a `Stepper`: for whoever drives a simulation in Python, second by second.

Environments do not use it: they play whole steps in machine code. Both give the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from scenario_lib.errors import InvalidSettingError, PowerFlowError, UnknownNameError
from scenario_lib.feeders.checks import shown
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.engine import compile_scenario
from scenario_lib.simulation.compiled.episode import window_of
from scenario_lib.simulation.compiled.lockstep import Lockstep, Observed
from scenario_lib.simulation.compiled.power_flow import Tolerance


@dataclass(frozen=True, slots=True)
class PhasePower:
    """Power per phase (W)."""

    a: float
    b: float
    c: float


@dataclass(frozen=True, slots=True)
class SiteState:
    """What openg2g's datacenter state offers to observations and rewards."""

    power_w: PhasePower
    batch_size_by_model: dict[str, int]
    active_replicas_by_model: dict[str, int]
    observed_itl_s_by_model: dict[str, float]


@dataclass(slots=True)
class SteppedSite:
    """One datacenter of a stepper; its state is that of the last second."""

    state: SiteState


class CompiledStepper:
    """See `Stepper`; `sites` have their states once the first interval is simulated."""

    def __init__(
        self, scenario: Scenario, experiment: Experiment, assets: Assets, total_duration_s: int, tolerance: Tolerance
    ) -> None:
        compiled = compile_scenario(scenario, experiment, assets, total_duration_s)
        tables = compiled.tables
        self._labels, self._names = tables.model_labels, tables.site_names
        self._lockstep = Lockstep([window_of(compiled)], tolerance=tolerance)
        self._beginning = self._lockstep.checkpoint(0)
        self._initial = tables.batch_sizes[np.arange(len(self._labels)), tables.initial_levels]
        self._batch_sizes = self._initial.copy()
        self._observed: Observed | None = None
        unknown = SiteState(PhasePower(0.0, 0.0, 0.0), {}, {}, {})
        self.sites: Mapping[str, SteppedSite] = {name: SteppedSite(unknown) for name in self._names}

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._lockstep.circuit.bus_phases

    def start(self) -> None:
        self._lockstep.restore(0, self._beginning)
        self._batch_sizes = self._initial.copy()

    def dispatch(self, site: str, batch_sizes: Mapping[str, int]) -> None:
        for label, size in batch_sizes.items():
            if (site, label) not in self._labels:
                raise UnknownNameError(f"dispatch: no model {label!r} at site {site!r}; there are {self._labels}")
            self._batch_sizes[self._labels.index((site, label))] = size

    def advance(self, interval_s: Fraction) -> None:
        if Fraction(interval_s).denominator != 1 or interval_s < 1:
            raise InvalidSettingError(
                f"dt_ctrl is {shown(interval_s)} s; expected a whole multiple of the simulation's tick of 1 s"
            )
        for _ in range(int(interval_s)):
            second = int(self._lockstep.seconds[0])
            self._observed = self._lockstep.step(self._batch_sizes[None])
            if not self._observed.converged[0]:
                raise PowerFlowError(second, "step")
        for place, name in enumerate(self._names):
            self.sites[name].state = self._state(place, name)

    def voltages_vector(self) -> NDArray[np.float64]:
        if self._observed is None:
            raise InvalidSettingError("voltages are known once the first interval is simulated; call advance first")
        return np.array(self._observed.voltages_pu[0])

    def stop(self) -> None:
        """Nothing is held outside this object."""

    def _state(self, place: int, name: str) -> SiteState:
        observed = self._observed
        if observed is None:
            raise InvalidSettingError("states are known once the first interval is simulated; call advance first")
        models = [(m, label) for m, (site, label) in enumerate(self._labels) if site == name]
        replicas, itl_s = self._lockstep.active_replicas(0), observed.itl_s[0]
        return SiteState(
            PhasePower(*map(float, observed.power_w[0, place])),
            {label: int(self._batch_sizes[m]) for m, label in models},
            {label: int(replicas[m]) for m, label in models},
            {label: float(itl_s[m]) for m, label in models},
        )
