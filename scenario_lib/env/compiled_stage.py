"""N places on the compiled engine in which episodes are played side by side."""

from collections.abc import Sequence

from scenario_lib.env.compiled_world import CompiledWorld, interval_seconds
from scenario_lib.env.episode import Episode
from scenario_lib.env.game import GameSettings
from scenario_lib.env.play_layout import layout_of, weights_of
from scenario_lib.errors import EnvironmentUseError, PowerFlowError
from scenario_lib.simulation.compiled.episode import CompiledEpisode
from scenario_lib.simulation.compiled.fleet import Fleet, Rules
from scenario_lib.simulation.compiled.play_tables import Clock, Outcome, Progress


class CompiledStage:
    """See `Game` for what begins and is played; here for many at a time."""

    def __init__(self, n_places: int, world: CompiledWorld, settings: GameSettings, threads: int = 1) -> None:
        self._n_places, self._world, self._settings, self._threads = n_places, world, settings, threads
        self._fleet: Fleet | None = None

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._running().circuit.bus_phases

    @property
    def begun(self) -> bool:
        """Whether an episode was put in a place."""
        return self._fleet is not None

    @property
    def outcome(self) -> Outcome:
        return self._running().outcome

    @property
    def progress(self) -> Progress:
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

    def _running(self) -> Fleet:
        if self._fleet is None:
            raise EnvironmentUseError("no episode has begun; call reset first")
        return self._fleet

    def _fleet_for(self, compiled: CompiledEpisode, episode: Episode) -> Fleet:
        """The fleet; alone on the stage, an episode on another circuit gets a new one."""
        fleet = self._fleet
        if fleet is None or (self._n_places == 1 and fleet.circuit is not compiled.circuit):
            fleet = self._fleet = self._new_fleet(compiled, episode)
        return fleet

    def _new_fleet(self, compiled: CompiledEpisode, episode: Episode) -> Fleet:
        settings, deployment = self._settings, compiled.deployment
        sites = settings.choose_sites(deployment.site_names)
        bus_phases, fits = compiled.circuit.bus_phases, settings.env.logistic_models
        rules = Rules(
            Clock(interval_seconds(episode), *self._world.tolerance),
            layout_of(settings.obs_config, deployment, bus_phases, sites, fits),
            weights_of(settings.env.reward_config),
            self._threads,
        )
        return Fleet(self._n_places, compiled.circuit, deployment, rules)
