"""Many environments in lockstep on the compiled engine, as Gymnasium's vector environment."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from scenario_lib._arrays import Bools, Floats, Singles
from scenario_lib._values import as_flag, as_whole_number, convert_fields, refuse, require_count
from scenario_lib.env.action import ActionReader, action_space
from scenario_lib.env.compiled_backend import EpisodeSource, figures_of
from scenario_lib.env.episode import (
    BackendSettings,
    ChooseSites,
    DrawScenario,
    EnvSettings,
    Episode,
    OFOBaseline,
    VectorHistory,
    deep_copied,
    episode_of,
    plain_spec,
    scenario_drawer,
)
from scenario_lib.env.extensions import ExtendedEpisodes
from scenario_lib.env.observation import ObservationConfig, observation_space
from scenario_lib.env.reward import voltage_statistics
from scenario_lib.env.sampling import ResetPlan, ScenarioSamplers, named_record
from scenario_lib.env.vector_infos import EnvMask, VectorInfos
from scenario_lib.errors import EnvironmentUseError, ScenarioLibError
from scenario_lib.execution.process import signals_held
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.simulation.compiled.batch import BatchSimulator
from scenario_lib.simulation.compiled.episode import CompiledEpisode
from scenario_lib.simulation.compiled.step_tables import STATISTICS

VectorStep = tuple[Singles, NDArray[np.float64], Bools, Bools, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """How many environments step together, and how.

    Attributes:
        num_envs: Environments.
        autoreset_mode: Gymnasium's "NextStep", "SameStep" or "Disabled", or its `AutoresetMode`.
        threads: Environments are shared out among so many; changes no bit.
        prefetch: A thread compiles the next episode of every environment while this one is played; changes no bit.
            Worth it where episodes are not played again and again, and so are not kept compiled.
        max_episode_steps: Episodes are truncated after so many steps, as Gymnasium's `TimeLimit` does.
    """

    num_envs: int
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    threads: int = 1
    prefetch: bool = False
    max_episode_steps: int | None = None

    def __post_init__(self) -> None:
        convert_fields(self, num_envs=as_whole_number, threads=as_whole_number, prefetch=as_flag)
        require_count("num_envs", self.num_envs, 1)
        require_count("threads", self.threads, 1)
        if self.max_episode_steps is not None:
            require_count("max_episode_steps", self.max_episode_steps, 1)
        try:
            object.__setattr__(self, "autoreset_mode", AutoresetMode(self.autoreset_mode))
        except ValueError:
            known = ", ".join(repr(mode.value) for mode in AutoresetMode)
            raise refuse("autoreset_mode", self.autoreset_mode, f"one of {known}") from None


class _Coming(NamedTuple):
    record: ScenarioRecord | None
    made: "Future[CompiledEpisode]"


class EpisodesAhead:
    """At most one episode per slot, compiled in a thread of its own; the thread starts with the first of them.

    A process that was forked, and a copy, expect nothing at first, and compile what is asked for.

    Args:
        source: Compiles them.
    """

    def __init__(self, source: EpisodeSource) -> None:
        self._source = source
        self._coming: dict[int, _Coming] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def __deepcopy__(self, memo: dict[int, Any]) -> "EpisodesAhead":
        del memo
        return EpisodesAhead(self._source)

    def expect(self, slot: int, episode: Episode, draw: DrawScenario) -> None:
        """Begin to compile the episode that a slot will play next, in place of any other expected there."""
        self._forget_if_forked()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="episodes-ahead")
        self._drop(slot)
        self._coming[slot] = _Coming(episode.record, self._thread.submit(self._source.episode, episode, draw))

    def episode(self, slot: int, episode: Episode, draw: DrawScenario) -> CompiledEpisode:
        """The episode: the expected one, for which this waits if need be, or one compiled here.

        Raises:
            PowerFlowError, ReplayError: As from compiling it here, whichever thread met it.
        """
        self._forget_if_forked()
        expected = self._coming.pop(slot, None)
        if expected is not None and expected.record is episode.record:
            return expected.made.result()
        return self._source.episode(episode, draw)

    def close(self) -> None:
        """Expect nothing any more, and end the thread once it has finished what it is at."""
        self._forget_if_forked()
        for slot in list(self._coming):
            self._drop(slot)
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread = None

    def _forget_if_forked(self) -> None:
        """Threads stay behind in the process that forked, and with them whatever they were to make."""
        if self._process != os.getpid():
            self._process, self._thread, self._coming = os.getpid(), None, {}

    def _drop(self, slot: int) -> None:
        dropped = self._coming.pop(slot, None)
        if dropped is not None:
            dropped.made.cancel()


class BatchSizeVectorEnv(gym.vector.VectorEnv[Singles, Any, NDArray[Any]]):
    """`BatchSizeEnv` or `SharedBatchSizeEnv`, N at a time.

    Each environment plays records of its own, with its own window and from its own random stream: environment i is
    what an environment made with `worker=(i, N)` is, bit for bit, given the same base seed.

    Observations, rewards and infos are those of the single environment, stacked as Gymnasium's `SyncVectorEnv` stacks
    them; every returned array is a fresh one.

    Args:
        source: What `make_sim_fn` gives for the compiled engine.
        choose_sites: From the names of all sites to those that the agent sees and sets.
        settings: As for a single environment; `worker=(i, k)` is for the i-th of k vector environments.
        vector: Number of environments, autoreset mode, threads.
    """

    def __init__(
        self,
        source: EpisodeSource,
        obs_config: ObservationConfig,
        choose_sites: ChooseSites,
        settings: EnvSettings,
        vector: VectorSettings,
    ) -> None:
        self.num_envs, self.render_mode = vector.num_envs, settings.render_mode
        self._mode = AutoresetMode(vector.autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10, "autoreset_mode": self._mode}
        labels, feasible = obs_config.model_labels, obs_config.feasible_batch_sizes
        self.single_observation_space = observation_space(obs_config, settings.extensions)
        self.single_action_space = action_space(settings.action_mode, labels, feasible)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._obs_config, self._settings = obs_config, settings
        self._reader = ActionReader.of(settings.action_mode, labels, feasible)
        self._ofo = OFOBaseline(settings.scenario_library, settings.reward_config) if settings.ofo_baseline else None
        self._source = source
        self._simulator: BatchSimulator | None = None
        self.backend_settings = BackendSettings(obs_config, settings, choose_sites, self._ofo, vector.threads)
        self._ahead, self._prefetch = EpisodesAhead(source), vector.prefetch
        self._most_steps = vector.max_episode_steps
        self._samplers = ScenarioSamplers(settings.scenario_library, settings.worker, settings.coverage, self.num_envs)
        self._history = VectorHistory(self.num_envs, labels)
        self._infos = VectorInfos(self.num_envs, labels)
        self._extended = settings.extended(self.num_envs)
        self._begun: Bools = np.zeros(self.num_envs, bool)
        self._over = EnvMask.of(self._begun)
        self._spec: EnvSpec | None = None
        self._forget()

    @property
    def spec(self) -> EnvSpec | None:
        """How the environment was made; None if not by Gymnasium's registry."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = plain_spec(spec)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Singles, dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: A base seed, from which all environments' streams are keyed; or one seed per environment.
            options: "reset_mask", booleans of shape (N,): only these; "scenario": seed of the record to play, or one
                per environment, None for a drawn one.

        An interrupt (Ctrl-C) in the midst of a reset or a step ends all episodes: the next reset begins anew.

        Raises:
            InvalidSettingError: A seed, scenario or mask that is not allowed; nothing has happened then.
            UnknownNameError: An option that does not exist, or a record; nothing has happened then.
        """
        try:
            return self._reset(seed, options)
        except ScenarioLibError:
            raise
        except BaseException:
            self._interrupted = True
            raise

    def _reset(
        self, seed: int | Sequence[int | None] | None, options: dict[str, Any] | None
    ) -> tuple[Singles, dict[str, Any]]:
        if self._interrupted:
            self.close_extras()
        plan = ResetPlan.of(options, self.num_envs)
        named = [named_record(self._settings.scenario_library, scenario) for scenario in plan.scenarios]
        if not np.all(self._begun | plan.mask):
            raise EnvironmentUseError("options['reset_mask'] leaves environments out that were never reset")
        self._samplers.seed(seed, plan.mask)
        for i in np.flatnonzero(plan.mask):
            self._begin(int(i), named[i])
        self._all_begun, self._over = True, EnvMask.of(self._over.mask & ~plan.mask)
        self._remember(plan.mask)
        infos = self._begun_infos(EnvMask.of(plan.mask))
        return self._observations(), infos

    def step(self, actions: Any) -> VectorStep:
        """One step of every environment; those that ended before are reset instead, as the autoreset mode has it."""
        try:
            return self._step(actions)
        except ScenarioLibError:
            raise
        except BaseException:
            self._interrupted = True
            raise

    def _step(self, actions: Any) -> VectorStep:
        waiting = self._require_begun()
        simulator = self._running
        progress, outcome = simulator.progress, simulator.outcome
        progress.moves[:] = self._reader.read_all(actions, self.num_envs)
        if self._reader.absolute:
            progress.moves[:] -= simulator.feasible_positions
        playing = np.logical_not(waiting.mask, out=progress.active).copy()
        simulator.play()
        rewards, failed = outcome.reward.copy(), playing & ~outcome.converged
        truncated = playing & (failed | (progress.step >= self._n_steps))
        self._remember(playing & ~failed)
        envs = EnvMask(playing, not waiting.anyone, not waiting.everyone)
        infos = self._step_infos(envs, failed)
        if self._extended is not None:
            rewards = self._extend(self._extended, infos, envs, playing & ~failed)
        self._over = EnvMask.of(truncated.copy())
        if waiting.anyone:
            infos = self._reset_waiting(waiting, infos)
        if self._over.anyone and self._mode is AutoresetMode.SAME_STEP:
            infos = self._reset_at_once(infos)
        return self._observations(), rewards, np.zeros(self.num_envs, bool), truncated, infos

    def render(self) -> Any:
        """A picture per environment of its episode so far, each of shape (height, width, 3); None without render_mode
        "rgb_array"."""
        return None if self.render_mode is None else self._history.pictures(self._settings.reward_config)

    @property
    def observation_labels(self) -> tuple[str, ...]:
        """What each slot of an observation is; known once an episode has begun."""
        return self._settings.labels_of(self._obs_config, self._running.circuit.bus_phases)

    def __deepcopy__(self, memo: dict[int, Any]) -> "BatchSizeVectorEnv":
        """Environments that play on from here by themselves, with equal bits for equal actions."""
        settings = self._settings
        told = settings, settings.scenario_library, settings.extensions, self._obs_config, self._ofo
        shared = (*told, *self._samplers.peeked)
        return deep_copied(self, shared, memo)

    def close_extras(self, **kwargs: Any) -> None:
        """Release the tables."""
        del kwargs
        self._ahead.close()
        self._simulator = None
        self._forget()

    @property
    def _running(self) -> BatchSimulator:
        if self._simulator is None:
            raise EnvironmentUseError("no episode has begun; call reset first")
        return self._simulator

    def _forget(self) -> None:
        n = self.num_envs
        self._interrupted = False
        self._all_begun, self._begun, self._over = False, np.zeros(n, bool), EnvMask.of(np.zeros(n, bool))
        self._n_steps, self._start_s = np.zeros(n, np.int64), np.zeros(n, np.int64)
        played = self._settings.scenario_library is not None
        self._own_observations: Singles | None = None
        self._scenarios: NDArray[Any] = np.zeros(n, np.int64) if played else np.full(n, None, object)

    def _require_begun(self) -> EnvMask:
        """Environments that wait for a reset, which this step brings them."""
        if self._interrupted:
            raise EnvironmentUseError("a reset or step was interrupted, which ended all episodes; call reset first")
        if not self._all_begun:
            raise EnvironmentUseError("step was called before reset; call reset first")
        if self._mode is AutoresetMode.DISABLED and self._over.anyone:
            raise EnvironmentUseError(
                f"step was called after the end of the episode of environments "
                f"{np.flatnonzero(self._over.mask).tolist()}; call reset(options={{'reset_mask': ...}}) first"
            )
        return self._over

    @signals_held()
    def _begin(self, i: int, named: ScenarioRecord | None = None) -> None:
        record = self._samplers.pick(i) if named is None else named
        episode = self._episode_of(record)
        if self._ofo is not None:
            self._ofo.require_trace(episode)
        compiled = self._ahead.episode(i, episode, self._drawer(record))
        self._simulator = self._source.simulator(self.num_envs, compiled, self.backend_settings, self._simulator)
        self._simulator.begin(i, compiled, self.backend_settings.ofo_penalty(episode, compiled.n_seconds))
        self._begun[i] = True
        self._n_steps[i] = episode.n_steps if self._most_steps is None else min(episode.n_steps, self._most_steps)
        self._start_s[i] = episode.start_s
        if record is not None:
            self._scenarios[i] = record.seed
        self._history.begin(i, None if record is None else record.seed)
        if self._extended is not None:
            self._extended.begin(i, self._drawer(record))
        if self._prefetch and named is None:
            coming = self._samplers.peek(i)
            self._ahead.expect(i, self._episode_of(coming), self._drawer(coming))

    def _episode_of(self, record: ScenarioRecord | None) -> Episode:
        settings = self._settings
        return episode_of(record, settings.truncate_episode, settings.total_duration_s, settings.dt_ctrl)

    def _drawer(self, record: ScenarioRecord | None) -> DrawScenario:
        return scenario_drawer(self._settings.scenario_library, record)

    def _reset_waiting(self, waiting: EnvMask, infos: dict[str, Any]) -> dict[str, Any]:
        """Begin the episodes of environments whose last one ended in the step before."""
        for i in np.flatnonzero(waiting.mask):
            self._begin(int(i))
        self._remember(waiting.mask)
        return self._infos.merged(infos, self._begun_infos(waiting), waiting.mask)

    def _reset_at_once(self, infos: dict[str, Any]) -> dict[str, Any]:
        """Keep what the ended episodes showed last, and begin new ones."""
        ended, self._over = self._over, EnvMask.of(np.zeros(self.num_envs, bool))
        final_obs, last = np.full(self.num_envs, None, object), self._observations()
        for i in np.flatnonzero(ended.mask):
            final_obs[i] = last[i].copy()
            self._begin(int(i))
        self._remember(ended.mask)
        return self._infos.with_final(infos, final_obs, self._begun_infos(ended), ended.mask)

    def _observations(self) -> Singles:
        own = self._own_observations
        return self._running.outcome.observation.copy() if own is None else own.copy()

    def _episode_infos(self, envs: EnvMask) -> dict[str, Any]:
        """Scenario, second and batch sizes of some environments."""
        return self._infos.of_episodes(envs, self._scenarios, self._time_s(), self._running.outcome.batch_size)

    def _begun_infos(self, envs: EnvMask) -> dict[str, Any]:
        """Infos of some environments whose episodes begin."""
        statistics = self._statistics(np.zeros((self.num_envs, len(STATISTICS))), envs.mask)
        infos = {**self._episode_infos(envs), **self._infos.of_begun(envs, statistics)}
        if self._extended is not None:
            self._extend(self._extended, infos, envs, np.zeros(self.num_envs, bool))
        return infos

    def _statistics(self, table: Floats, mask: Bools) -> Floats:
        """A copy of a table of voltage statistics with those of the last voltages in some rows."""
        statistics = table.copy()
        for i in np.flatnonzero(mask):
            shown = voltage_statistics(self._running.outcome.voltages_pu[i], self._settings.reward_config)
            statistics[i] = [shown[name] for name in STATISTICS]
        return statistics

    def _extend(self, extended: ExtendedEpisodes, infos: dict[str, Any], envs: EnvMask, stepped: Bools) -> Floats:
        """Put what extensions show of some environments into infos and observations; rewards of those who stepped."""
        by_default = self._running.outcome.reward
        made = extended.look(figures_of(self._running), self._time_s(), by_default, stepped)
        infos.update(self._infos.of_extensions(envs, made.info, made.components))
        if made.observation is not None:
            before = made.observation if self._own_observations is None else self._own_observations
            self._own_observations = np.where(envs.mask[:, None], made.observation, before)
        return by_default.copy() if made.reward is None else made.reward

    def _time_s(self) -> NDArray[np.float64]:
        """Simulated second that each observation shows, shape (N,)."""
        return np.asarray(self._start_s + self._running.progress.step * float(self._settings.dt_ctrl))

    def _remember(self, mask: Bools) -> None:
        """Keep for pictures what some environments show."""
        if self.render_mode is not None:
            outcome = self._running.outcome
            slots = np.flatnonzero(mask).tolist()
            self._history.add(slots, self._time_s(), outcome.voltages_pu, outcome.batch_size)

    def _step_infos(self, playing: EnvMask, failed: Bools) -> dict[str, Any]:
        infos, outcome = self._episode_infos(playing), self._running.outcome
        failures = {int(i): self._running.failure(int(i)) for i in np.flatnonzero(failed)}
        if failures and self._settings.on_divergence == "raise":
            self._over = EnvMask.of(failed)
            raise next(iter(failures.values()))
        terms, statistics = outcome.terms, outcome.statistics
        if failures:
            terms, statistics = np.where(failed[:, None], 0.0, terms), self._statistics(statistics, failed)
        messages = {i: str(error) for i, error in failures.items()}
        infos.update(self._infos.of_rewards(playing, terms, statistics, messages))
        return infos
