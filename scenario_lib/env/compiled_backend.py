"""A scenario on the compiled engine as a `Simulator`: for whoever drives a simulation in Python, second by second.

Environments do not use it: they play whole steps in machine code. Both give the same numbers.

Episodes on the compiled engine: made once, kept as long as memory for them lasts.

N places on the compiled engine in which episodes are played side by side.

One episode on the compiled engine: a step is one call of machine code.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Singles
from scenario_lib._values import shown
from scenario_lib.env.action import MoveReader
from scenario_lib.env.episode import BackendSettings, DrawScenario, Episode, StepOutcome
from scenario_lib.env.reward import STATISTICS, TERMS
from scenario_lib.env.step_layout import layout_of, weights_of
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, PowerFlowError, UnknownNameError
from scenario_lib.execution.process import signals_held
from scenario_lib.feeders.circuit_files import current_digest
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.batch import BatchSettings, BatchSimulator, Lockstep, Observed
from scenario_lib.simulation.compiled.episode import EPISODES, CompiledEpisode, SameObject, compile_episode, window_of
from scenario_lib.simulation.compiled.power_flow import Tolerance
from scenario_lib.simulation.compiled.rollout import compile_scenario
from scenario_lib.simulation.compiled.step_tables import Clock, EpisodeProgress, StepArrays
from scenario_lib.simulation.opendss.engine import opendss_held
from scenario_lib.simulation.rollout import require_fits


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


class CompiledSimulator:
    """See `Simulator`; `sites` have their states once the first interval is simulated."""

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


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeSource:
    """Makes simulations of one experiment on the compiled engine; what `make_sim_fn` gives for it.

    Environments take whole episodes from it; called, it gives a `Simulator` as the reference engine's function does.
    """

    experiment: Experiment
    assets: Assets
    total_duration_s: int
    tolerance: Tolerance

    def __deepcopy__(self, memo: object) -> "EpisodeSource":
        """Itself: it does not change, and the episodes of copied environments are found under it."""
        del memo
        return self

    def __call__(self, scenario_override: Scenario | None = None) -> CompiledSimulator:
        scenario = self.scenario_of(scenario_override)
        return CompiledSimulator(scenario, self.experiment, self.assets, self.total_duration_s, self.tolerance)

    def episode(self, episode: Episode, draw: Callable[[], Scenario | None]) -> CompiledEpisode:
        """The window of an episode, from the cache of this process if it was compiled before.

        Args:
            draw: Gives the scenario of the episode's record; called if the episode is not in the cache.
        """
        window_s = episode_window_s(episode)
        circuit = current_digest(Path(self.experiment.feeder.circuit))
        key = (SameObject(self), SameObject(episode.record), window_s, circuit)

        def compiled() -> CompiledEpisode:
            with opendss_held():
                scenario = self.scenario_of(draw())
                return compile_episode(scenario, self.experiment, self.assets, window_s, self.tolerance)

        return EPISODES.get(key, compiled)

    def scenario_of(self, override: Scenario | None) -> Scenario:
        """The scenario to play, or the experiment as it stands.

        Raises:
            InvalidSettingError: It is one of another feeder.
        """
        scenario = base_scenario(self.experiment) if override is None else override
        require_fits(scenario, self.experiment)
        return scenario


def episode_window_s(episode: Episode) -> tuple[int, int]:
    """First second and end of what an episode simulates: one interval at reset, and one per step."""
    interval_s = interval_seconds(episode)
    return episode.start_s, episode.start_s + (episode.n_steps + 1) * interval_s


def interval_seconds(episode: Episode) -> int:
    """The control interval in the engine's ticks of 1 s.

    Raises:
        InvalidSettingError: It is no whole number of them.
    """
    if episode.dt_ctrl.denominator != 1:
        raise InvalidSettingError(
            f"dt_ctrl is {shown(episode.dt_ctrl)} s; expected a whole multiple of the simulation's tick of 1 s"
        )
    return int(episode.dt_ctrl)


class CompiledEpisodes:
    """See `Game` for what begins and is played; here for many at a time."""

    def __init__(self, n_places: int, world: EpisodeSource, settings: BackendSettings, threads: int = 1) -> None:
        self._n_places, self._world, self._settings, self._threads = n_places, world, settings, threads
        self._fleet: BatchSimulator | None = None

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._running().circuit.bus_phases

    @property
    def begun(self) -> bool:
        """Whether an episode was put in a place."""
        return self._fleet is not None

    @property
    def outcome(self) -> StepArrays:
        return self._running().outcome

    @property
    def progress(self) -> EpisodeProgress:
        return self._running().progress

    def begin(self, place: int, episode: Episode, compiled: CompiledEpisode) -> None:
        """Put an episode in a place; see `Game.begin`."""
        fleet = self._fleet_for(compiled, episode)
        ofo = self._settings.ofo
        penalty = None if ofo is None else ofo.window_penalty(episode, compiled.n_seconds)
        if not fleet.load(place, compiled, penalty):
            raise PowerFlowError(int(fleet.progress.second[place]), "step")

    def play(self) -> None:
        """One step of all active episodes; see `Fleet.play`."""
        self._running().play()

    def failure(self, place: int) -> PowerFlowError:
        """What went wrong where the power flow did not converge."""
        return PowerFlowError(int(self.progress.second[place]), "step")

    def close(self) -> None:
        self._fleet = None

    def _running(self) -> BatchSimulator:
        if self._fleet is None:
            raise EnvironmentUseError("no episode has begun; call reset first")
        return self._fleet

    def _fleet_for(self, compiled: CompiledEpisode, episode: Episode) -> BatchSimulator:
        """The fleet; alone on the stage, an episode on another circuit gets a new one."""
        fleet = self._fleet
        if fleet is None or (self._n_places == 1 and fleet.circuit is not compiled.circuit):
            fleet = self._fleet = self._new_fleet(compiled, episode)
        return fleet

    def _new_fleet(self, compiled: CompiledEpisode, episode: Episode) -> BatchSimulator:
        settings, deployment = self._settings, compiled.deployment
        sites = settings.choose_sites(deployment.site_names)
        bus_phases, fits = compiled.circuit.bus_phases, settings.env.logistic_models
        rules = BatchSettings(
            Clock(interval_seconds(episode), *self._world.tolerance),
            layout_of(settings.obs_config, deployment, bus_phases, sites, fits),
            weights_of(settings.env.reward_config),
            self._threads,
        )
        return BatchSimulator(self._n_places, compiled.circuit, deployment, rules)


class CompiledBackend:
    """See `Game`."""

    def __init__(self, world: EpisodeSource, settings: BackendSettings) -> None:
        config = settings.obs_config
        self._world, self._stage = world, CompiledEpisodes(1, world, settings)
        self._labels = config.model_labels
        self._reader = MoveReader.of(settings.env.action_mode, config.model_labels, config.feasible_batch_sizes)

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._stage.v_index

    @signals_held()
    def begin(self, episode: Episode, draw: DrawScenario) -> tuple[Singles, dict[str, int]]:
        self._stage.begin(0, episode, self._world.episode(episode, draw))
        self._stage.progress.active[0] = True
        self._look_up_rows()
        return self._row.copy(), self._batch_sizes()

    def _look_up_rows(self) -> None:
        """Rows of arrays that every step fills in again; looked up once an episode, as a step takes microseconds."""
        outcome = self._stage.outcome
        self._moves, self._converged = self._stage.progress.moves[0], outcome.converged
        self._row, self._reward, self._sizes = outcome.observation[0], outcome.reward, outcome.batch_size[0]
        self._terms, self._statistics = outcome.terms[0], outcome.statistics[0]
        self._play = self._stage.play

    def play(self, action: object, episode: Episode) -> StepOutcome:
        self._moves[:] = self._reader.read(action)
        episode.step += 1
        self._play()
        if not self._converged[0]:
            return StepOutcome(self._row.copy(), 0.0, self._batch_sizes(), {}, {}, self._stage.failure(0))
        return StepOutcome(
            self._row.copy(),
            self._reward.item(),
            self._batch_sizes(),
            dict(zip(TERMS, self._terms.tolist(), strict=True)),
            dict(zip(STATISTICS, self._statistics.tolist(), strict=True)),
            None,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledBackend":
        """A game that goes on from here by itself, with rows of its own."""
        twin = object.__new__(CompiledBackend)
        twin._world, twin._labels, twin._reader = self._world, self._labels, self._reader
        twin._stage = copy.deepcopy(self._stage, memo)
        if twin._stage.begun:
            twin._look_up_rows()
        return twin

    def voltages_vector(self) -> NDArray[np.float64]:
        return np.array(self._stage.outcome.voltages_pu[0])

    def close(self) -> None:
        """Tables are kept for the next episode, or go with this object."""

    def _batch_sizes(self) -> dict[str, int]:
        return dict(zip(self._labels, self._sizes.tolist(), strict=True))
