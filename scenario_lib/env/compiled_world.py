"""Episodes on the compiled engine: made once, kept as long as memory for them lasts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scenario_lib.env.compiled_stepper import CompiledStepper
from scenario_lib.env.episode import Episode
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.circuit_files import current_digest
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.episode import CompiledEpisode, compile_episode
from scenario_lib.simulation.compiled.episode_cache import EPISODES, SameObject
from scenario_lib.simulation.compiled.power_flow import Tolerance
from scenario_lib.simulation.opendss import opendss_held
from scenario_lib.simulation.rollout import require_fits


@dataclass(frozen=True, slots=True, eq=False)
class CompiledWorld:
    """Makes simulations of one experiment on the compiled engine; what `make_sim_fn` gives for it.

    Environments take whole episodes from it; called, it gives a `Stepper` as the reference engine's function does.
    """

    experiment: Experiment
    assets: Assets
    total_duration_s: int
    tolerance: Tolerance

    def __deepcopy__(self, memo: object) -> "CompiledWorld":
        """Itself: it does not change, and the episodes of copied environments are found under it."""
        del memo
        return self

    def __call__(self, scenario_override: Scenario | None = None) -> CompiledStepper:
        scenario = self.scenario_of(scenario_override)
        return CompiledStepper(scenario, self.experiment, self.assets, self.total_duration_s, self.tolerance)

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
            f"dt_ctrl is {episode.dt_ctrl} s; expected a whole multiple of the simulation's tick of 1 s"
        )
    return int(episode.dt_ctrl)
