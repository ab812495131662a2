"""What both environments share: picking scenarios, episodes, and Gymnasium's interface around a `Game`."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from scenario_lib.env.action import action_space
from scenario_lib.env.copying import deep_copied
from scenario_lib.env.episode import Episode, OFOBaseline, episode_of
from scenario_lib.env.game import Game, GameSettings, scenario_drawer
from scenario_lib.env.labels import observation_labels
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.env.picking import ScenarioPicker, Worker, worker_generator
from scenario_lib.env.plain_spec import plain_spec
from scenario_lib.env.render import EpisodeHistory, render_episode
from scenario_lib.env.reset_plan import SINGLE_OPTIONS, known_options, whole_seed
from scenario_lib.env.reward import TERMS, voltage_statistics
from scenario_lib.env.settings import EnvSettings
from scenario_lib.env.simulation import MakeSim
from scenario_lib.env.stepped_game import SteppedGame
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, PowerFlowError
from scenario_lib.library.record import ScenarioRecord

Observation = NDArray[np.float32]
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


def game_on(make_sim: MakeSim, settings: GameSettings) -> Game:
    """The game on the engine that `make_sim` is of."""
    from scenario_lib.env.compiled_game import CompiledGame
    from scenario_lib.env.compiled_world import CompiledWorld

    if isinstance(make_sim, CompiledWorld):
        return CompiledGame(make_sim, settings)
    return SteppedGame(make_sim, settings)


class GameEnv(gym.Env[Observation, Any]):
    """An environment on either engine; subclasses say which sites the agent sees and sets."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - gymnasium's own declaration

    def __init__(self, make_sim_fn: MakeSim, obs_config: ObservationConfig, settings: EnvSettings) -> None:
        self._obs_config, self._settings = obs_config, settings
        self._library = settings.scenario_library
        self._worker = None if settings.worker is None else Worker(*settings.worker)
        self._picker = None if self._library is None else ScenarioPicker(self._library, self._worker, settings.coverage)
        self._ofo = OFOBaseline(self._library, settings.reward_config) if settings.ofo_baseline else None
        self._game = game_on(make_sim_fn, GameSettings(obs_config, settings, self._choose_sites, self._ofo))
        self.action_space = action_space(settings.action_mode, obs_config.model_labels, obs_config.feasible_batch_sizes)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (obs_config.obs_dim,), np.float32)
        self.render_mode = settings.render_mode
        self._history = EpisodeHistory()
        self._episode: Episode | None = None
        self._spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """How the environment was made; None if not by Gymnasium's registry."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = plain_spec(spec)

    def _choose_sites(self, sites: Any) -> list[str]:
        raise NotImplementedError

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; `options={"scenario": seed}` plays the record of that seed.

        Raises:
            InvalidSettingError: A seed that is no whole number; nothing has happened then.
            UnknownNameError: An option that does not exist, or a record; nothing has happened then.
        """
        seed = whole_seed("seed", seed)
        named = self._named(whole_seed("options['scenario']", known_options(options, SINGLE_OPTIONS).get("scenario")))
        super().reset(seed=seed)
        if seed is not None:
            self._seed_workers(seed)
        self.close()
        record = named if named is not None or self._picker is None else self._picker.pick(self.np_random)
        settings = self._settings
        episode = episode_of(record, settings.truncate_episode, settings.total_duration_s, settings.dt_ctrl)
        if self._ofo is not None:
            self._ofo.require_trace(episode)
        observation, batch_sizes = self._game.begin(episode, scenario_drawer(self._library, record))
        self._episode, self._history = episode, EpisodeHistory(None if record is None else record.seed)
        self._remember(episode, batch_sizes)
        info = self._info(episode, batch_sizes)
        info["reward_components"] = dict.fromkeys(TERMS, 0.0)
        info["voltage_stats"] = voltage_statistics(self._game.voltages_vector(), settings.reward_config)
        return observation, info

    def step(self, action: Any) -> StepResult:
        """Act, simulate one control interval, observe, reward, and end when the window does."""
        episode = self._episode
        if episode is None or episode.over:
            raise self._out_of_turn()
        turn = self._game.play(action, episode)
        info = self._info(episode, turn.batch_sizes)
        info["reward_components"], info["voltage_stats"] = turn.components, turn.voltage_stats
        if turn.failure is not None:
            self._end_diverged(episode, turn.failure)
            info["power_flow"] = str(turn.failure)
            return turn.observation, 0.0, False, True, info
        if self.render_mode is not None:
            self._remember(episode, turn.batch_sizes)
        episode.over = episode.step >= episode.n_steps
        return turn.observation, turn.reward, False, episode.over, info

    def render(self) -> Any:
        """A picture of the episode so far, shape (height, width, 3); None without render_mode "rgb_array"."""
        if self.render_mode is None:
            return None
        return render_episode(self._history, self._settings.reward_config)

    @property
    def observation_labels(self) -> tuple[str, ...]:
        """What each slot of the observation is; known once an episode has begun.

        Raises:
            EnvironmentUseError: Before the first reset.
        """
        if self._episode is None:
            raise EnvironmentUseError("observation_labels are known once reset has read the feeder; call reset first")
        return observation_labels(self._obs_config, tuple(self._game.v_index))

    def close(self) -> None:
        """Release the simulation; may be called more than once."""
        self._game.close()
        self._episode = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "GameEnv":
        """An environment that plays on from here by itself, with equal bits for equal actions (compiled engine).

        Raises:
            NotCopyableError: An episode has begun on the reference engine.
        """
        record = None if self._episode is None else self._episode.record
        return deep_copied(self, (self._settings, self._library, self._obs_config, self._ofo, record), memo)

    def _seed_workers(self, seed: int) -> None:
        if self._worker is not None:
            self.np_random = worker_generator(seed, self._worker)
        if self._picker is not None:
            self._picker.restart(seed)

    def _named(self, scenario: int | None) -> ScenarioRecord | None:
        """The record of a seed that was asked for."""
        if scenario is None:
            return None
        if self._library is None:
            raise InvalidSettingError(f"options['scenario'] is {scenario!r}; expected none, without a library")
        return self._library.record_for(scenario)

    def _out_of_turn(self) -> EnvironmentUseError:
        when = "before reset" if self._episode is None else "after the end of the episode"
        return EnvironmentUseError(f"step was called {when}; call reset first")

    def _end_diverged(self, episode: Episode, failure: PowerFlowError) -> None:
        episode.over = True
        if self._settings.on_divergence == "raise":
            raise failure

    def _remember(self, episode: Episode, batch_sizes: dict[str, int]) -> None:
        if self.render_mode is not None:
            self._history.add(episode.time_s, self._game.voltages_vector(), batch_sizes)

    def _info(self, episode: Episode, batch_sizes: dict[str, int]) -> dict[str, Any]:
        record = episode.record
        return {
            "scenario": None if record is None else record.seed,
            "time_s": episode.time_s,
            "batch_sizes": batch_sizes,
        }
