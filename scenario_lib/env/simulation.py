"""What an environment steps: one simulated feeder with its datacenters, an interval at a time.

`Stepper` is all that environments need. The reference one wraps openg2g's objects; a stepper of another engine serves
in its place.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from openg2g.controller.tap_schedule import TapScheduleController
from openg2g.coordinator import Coordinator
from openg2g.datacenter.command import SetBatchSize
from openg2g.grid.config import TapSchedule

from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.engines import COMPILED, Engine, as_engine
from scenario_lib.simulation.rollout import build_simulation, require_fits


class Stepper(Protocol):
    """A simulation that an environment drives."""

    @property
    def v_index(self) -> Sequence[tuple[str, int]]: ...

    @property
    def sites(self) -> Mapping[str, Any]:
        """By site name, objects whose `state` is that of their datacenter (openg2g's attributes)."""
        ...

    def start(self) -> None:
        """Begin at second 0."""
        ...

    def dispatch(self, site: str, batch_sizes: Mapping[str, int]) -> None:
        """Set batch sizes at a site; they act in the next interval."""
        ...

    def advance(self, interval_s: Fraction) -> None:
        """Simulate one interval.

        Raises:
            PowerFlowError: The power flow did not converge.
        """
        ...

    def voltages_vector(self) -> NDArray[np.float64]: ...

    def stop(self) -> None:
        """Release what the simulation holds; may be called more than once."""
        ...


SimParts = tuple[Mapping[str, Any], Any, Any]
"""openg2g's datacenters by site, grid, and tap controller or None."""

MakeSim = Callable[..., SimParts | Stepper]


def make_sim_fn(
    experiment: Experiment, assets: Assets, total_duration_s: int = DURATION_S, engine: str | Engine = COMPILED
) -> MakeSim:
    """A function that makes a fresh simulation of a scenario, or of the experiment as it stands.

    On the reference engine it gives openg2g's objects: datacenters by site, the grid with its PV systems and loads, and
    a tap controller with an empty schedule. On the compiled engine it gives a `Stepper`, and environments that are
    given this function play whole steps in machine code.

    Args:
        engine: An engine, or its label: "compiled", "compiled/accurate" or "reference".

    Raises:
        InvalidSettingError: No such engine.
    """
    chosen = as_engine("engine", engine)
    if chosen.name == COMPILED:
        # Imported here, because loading the kernels takes a while that the reference engine need not pay.
        from scenario_lib.env.compiled_world import CompiledWorld
        from scenario_lib.simulation.compiled.power_flow import ACCURATE, OPENDSS

        tolerance = OPENDSS if chosen.tolerance == "opendss" else ACCURATE
        return CompiledWorld(experiment, assets, total_duration_s, tolerance)

    def make_sim(scenario_override: Scenario | None = None) -> SimParts:
        scenario = base_scenario(experiment) if scenario_override is None else scenario_override
        require_fits(scenario, experiment)
        simulation = build_simulation(scenario, experiment, assets, "none", total_duration_s)
        return simulation.datacenters, simulation.grid, TapScheduleController(schedule=TapSchedule(()))

    return make_sim


class CoordinatedStepper:
    """openg2g's coordinator as a stepper."""

    def __init__(self, parts: SimParts, total_duration_s: int) -> None:
        self.sites, self._grid, tap_controller = parts
        self._coordinator = Coordinator(
            datacenters=list(self.sites.values()),
            grid=self._grid,
            controllers=[] if tap_controller is None else [tap_controller],
            total_duration_s=total_duration_s,
        )
        self._running = False

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return list(self._grid.v_index)

    def start(self) -> None:
        self._coordinator.reset()
        self._coordinator.start()
        self._running = True

    def dispatch(self, site: str, batch_sizes: Mapping[str, int]) -> None:
        self._coordinator.dispatch_commands(
            [SetBatchSize(batch_size_by_model=dict(batch_sizes), target=self.sites[site])]
        )

    def advance(self, interval_s: Fraction) -> None:
        ticks = interval_s / self._coordinator.clock.tick_s
        if ticks.denominator != 1 or ticks < 1:
            raise InvalidSettingError(
                f"dt_ctrl is {interval_s} s; expected a whole multiple of the simulation's tick of "
                f"{self._coordinator.clock.tick_s} s"
            )
        for _ in range(int(ticks)):
            self._coordinator.step()

    def voltages_vector(self) -> NDArray[np.float64]:
        return np.asarray(self._grid.voltages_vector())

    def stop(self) -> None:
        if self._running:
            self._coordinator.stop()
        self._running = False


def as_stepper(made: SimParts | Stepper, total_duration_s: int) -> Stepper:
    """What `make_sim_fn` gave, as a stepper."""
    return CoordinatedStepper(made, total_duration_s) if isinstance(made, tuple) else made
