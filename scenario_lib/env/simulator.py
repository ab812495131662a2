"""What an environment steps: one simulated feeder with its datacenters, an interval at a time.

`Simulator` is all that `SimulatorBackend`, which plays episodes in Python, needs of it. The reference one wraps
openg2g's objects; that of another engine serves in its place.
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

from scenario_lib._arrays import Singles
from scenario_lib._values import few, shown
from scenario_lib.env.action import decode_action
from scenario_lib.env.episode import BackendSettings, DrawScenario, Episode, StepOutcome
from scenario_lib.env.figures import BackendFigures
from scenario_lib.env.observation import build_observation, merge_states, zone_masks_of
from scenario_lib.env.reward import RewardedStep, reward_of, voltage_statistics
from scenario_lib.errors import (
    EnvironmentUseError,
    InvalidSettingError,
    NotCopyableError,
    PowerFlowError,
    UnknownNameError,
)
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.step_tables import NEVER_CHANGED, TERMS
from scenario_lib.simulation.engines import COMPILED, Engine, as_engine, power_flow_tolerance
from scenario_lib.simulation.rollout import build_simulation, require_fits


class Simulator(Protocol):
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

MakeSim = Callable[..., SimParts | Simulator]


def make_sim_fn(
    experiment: Experiment, assets: Assets, total_duration_s: int = DURATION_S, engine: str | Engine = COMPILED
) -> MakeSim:
    """A function that makes a fresh simulation of a scenario, or of the experiment as it stands.

    On the reference engine it gives openg2g's objects: datacenters by site, the grid with its PV systems and loads, and
    a tap controller with an empty schedule. On the compiled engine it gives a `Simulator`, and environments that are
    given this function play whole steps in machine code.

    Args:
        engine: An engine, or its label: "compiled", "compiled/accurate" or "reference".

    Raises:
        InvalidSettingError: No such engine.
    """
    chosen = as_engine("engine", engine)
    if chosen.name == COMPILED:
        # Imported here, because loading the kernels takes a while that the reference engine need not pay.
        from scenario_lib.env.compiled_backend import EpisodeSource

        tolerance = power_flow_tolerance(chosen.tolerance)
        return EpisodeSource(experiment, assets, total_duration_s, tolerance)

    def make_sim(scenario_override: Scenario | None = None) -> SimParts:
        scenario = base_scenario(experiment) if scenario_override is None else scenario_override
        require_fits(scenario, experiment)
        simulation = build_simulation(scenario, experiment, assets, "none", total_duration_s)
        return simulation.datacenters, simulation.grid, TapScheduleController(schedule=TapSchedule(()))

    return make_sim


class _OpenG2GSimulator:
    """openg2g's coordinator as a `Simulator`."""

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
                f"dt_ctrl is {shown(interval_s)} s; expected a whole multiple of the simulation's tick of "
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


def as_simulator(made: SimParts | Simulator, total_duration_s: int) -> Simulator:
    """What `make_sim_fn` gave, as a `Simulator`."""
    return _OpenG2GSimulator(made, total_duration_s) if isinstance(made, tuple) else made


class SimulatorBackend:
    """An `EpisodeBackend` over a `Simulator`."""

    def __init__(self, make_sim: MakeSim, settings: BackendSettings) -> None:
        self._make_sim, self._settings, self._config = make_sim, settings, settings.obs_config
        self._sim: Simulator | None = None
        self._figures: BackendFigures | None = None

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._running().v_index

    def begin(self, episode: Episode, draw: DrawScenario) -> tuple[Singles, dict[str, int]]:
        self.close()
        made = self._make_sim(scenario_override=draw())
        sim = self._sim = as_simulator(made, self._settings.env.total_duration_s)
        self._sites = self._settings.choose_sites(list(sim.sites))
        sim.start()
        for _ in range(episode.start_s):
            sim.advance(Fraction(1))
        sim.advance(episode.dt_ctrl)
        self._prev_batch = self._running_batches(sim)
        self._since_change = dict.fromkeys(self._config.model_labels, NEVER_CHANGED)
        self._masks = zone_masks_of(self._config, sim.v_index)
        self._observation = self._observe(sim)
        self._statistics = voltage_statistics(sim.voltages_vector(), self._settings.env.reward_config)
        self._remember(sim)
        return self._observation, dict(self._prev_batch)

    def play(self, action: object, episode: Episode) -> StepOutcome:
        sim = self._running()
        labels, feasible = self._config.model_labels, self._config.feasible_batch_sizes
        batches = decode_action(action, self._settings.env.action_mode, labels, feasible, self._prev_batch, None)
        for site in self._sites:
            here = sim.sites[site].state.batch_size_by_model
            sim.dispatch(site, {label: size for label, size in batches.items() if label in here})
        episode.step += 1
        try:
            sim.advance(episode.dt_ctrl)
        except PowerFlowError as error:
            unpaid = dict.fromkeys(TERMS, 0.0)
            return StepOutcome(self._observation, 0.0, dict(self._prev_batch), unpaid, self._statistics, error)
        reward, components, statistics = self._reward(sim, batches, episode)
        self._observation = self._observe(sim)
        for label, size in batches.items():
            self._since_change[label] = 0 if size != self._prev_batch[label] else self._since_change[label] + 1
        self._prev_batch, self._statistics = batches, statistics
        self._remember(sim)
        return StepOutcome(self._observation, reward, dict(batches), components, statistics, None)

    def __reduce__(self) -> str | tuple[Any, ...]:
        if isinstance(self._sim, _OpenG2GSimulator):
            raise NotCopyableError(
                "an environment on the reference engine cannot be copied or pickled once its episode has begun, as "
                "OpenDSS keeps the state of its one circuit to itself; copy one with engine='compiled', or reset "
                "another with the same seed and take the same actions"
            )
        return super().__reduce__()

    def voltages_vector(self) -> NDArray[np.float64]:
        return self._running().voltages_vector()

    def figures(self) -> BackendFigures:
        if self._figures is None:
            raise EnvironmentUseError("no episode has begun; call reset first")
        return self._figures

    def _remember(self, sim: Simulator) -> None:
        """Keep what is shown, which a power flow that diverges later does not change; only extensions ask for it."""
        if self._settings.env.extensions is None:
            return
        labels, observed = self._config.model_labels, merge_states(self._datacenters(sim))
        powers = [datacenter.state.power_w for datacenter in self._datacenters(sim)]
        self._figures = BackendFigures(
            voltages_pu=np.array(sim.voltages_vector())[None],
            power_w=np.array([[(power.a, power.b, power.c) for power in powers]], float),
            batch_sizes=np.array([[observed.batch_sizes[label] for label in labels]], np.int64),
            itl_s=np.array([[observed.itl_s.get(label, np.nan) for label in labels]], float),
            active_replicas=np.array([[observed.active_replicas.get(label, 0) for label in labels]], np.int64),
            observation=self._observation[None],
        )

    def close(self) -> None:
        if self._sim is not None:
            self._sim.stop()
        self._sim = None

    def _running(self) -> Simulator:
        if self._sim is None:
            raise EnvironmentUseError("no episode has begun; call reset first")
        return self._sim

    def _datacenters(self, sim: Simulator) -> list[Any]:
        return [sim.sites[site] for site in self._sites]

    def _running_batches(self, sim: Simulator) -> dict[str, int]:
        running: dict[str, int] = {}
        for datacenter in self._datacenters(sim):
            running.update(datacenter.state.batch_size_by_model)
        for label in self._config.model_labels:
            if label not in running:
                raise UnknownNameError(
                    f"model_labels: {label!r} is not at {few(self._sites)}; expected some of {few(running)}"
                )
        return {label: int(running[label]) for label in self._config.model_labels}

    def _observe(self, sim: Simulator) -> Singles:
        sources = sim, self._datacenters(sim)
        return build_observation(*sources, self._config, self._prev_batch, *self._masks)

    def _reward(
        self, sim: Simulator, batches: Mapping[str, int], episode: Episode
    ) -> tuple[float, dict[str, float], dict[str, float]]:
        ofo = self._settings.ofo
        penalty = 0.0 if ofo is None else ofo.penalty(episode)
        step = RewardedStep(self._prev_batch, batches, self._since_change, penalty)
        sources = sim, self._datacenters(sim), self._config
        return reward_of(*sources, self._settings.env.reward_config, self._settings.env.logistic_models, step)
