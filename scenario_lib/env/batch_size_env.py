"""Gymnasium environments in which an agent picks LLM batch sizes to keep a feeder's voltages in range."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from scenario_lib.env.action import action_space, decode_action
from scenario_lib.env.episode import Episode, OFOBaseline, episode_of
from scenario_lib.env.labels import observation_labels
from scenario_lib.env.observation import ObservationConfig, build_observation, compute_zone_mask
from scenario_lib.env.picking import Library, ScenarioPicker, Worker, worker_generator
from scenario_lib.env.render import EpisodeHistory, render_episode
from scenario_lib.env.reward import NEVER_CHANGED, RewardConfig, clip_reward, compute_reward
from scenario_lib.env.simulation import MakeSim, Stepper, as_stepper
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, PowerFlowError, UnknownNameError
from scenario_lib.feeders.checks import refuse
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.record import ScenarioRecord

Observation = NDArray[np.float32]
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]

_DEFAULT_SITE = "_default"
DIVERGENCE_MODES = ("truncate", "raise")


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """What both environments are told beside simulation and observation; see `BatchSizeEnv` for each."""

    reward_config: RewardConfig
    action_mode: str
    logistic_models: Any
    dt_ctrl: Fraction
    total_duration_s: int
    scenario_library: Library | None
    ofo_baseline: bool
    truncate_episode: bool
    on_divergence: str
    worker: tuple[int, int] | None
    coverage: str
    render_mode: str | None

    def __post_init__(self) -> None:
        if self.on_divergence not in DIVERGENCE_MODES:
            raise refuse("on_divergence", self.on_divergence, f"one of {', '.join(DIVERGENCE_MODES)}")
        if self.dt_ctrl <= 0:
            raise refuse("dt_ctrl", self.dt_ctrl, "more than 0 s")
        if self.render_mode not in (None, "rgb_array"):
            raise refuse("render_mode", self.render_mode, "None or 'rgb_array'")


class _BatchSizeEnv(gym.Env[Observation, Any]):
    """What the two environments share: episodes, steps, rewards; they differ in which sites are observed and set."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - gymnasium's own declaration

    def __init__(self, make_sim_fn: MakeSim, obs_config: ObservationConfig, settings: EnvSettings) -> None:
        self._make_sim = make_sim_fn
        self._obs_config = obs_config
        self._settings = settings
        self._library = settings.scenario_library
        self._worker = None if settings.worker is None else Worker(*settings.worker)
        self._picker = None if self._library is None else ScenarioPicker(self._library, self._worker, settings.coverage)
        self._ofo = OFOBaseline(self._library, settings.reward_config) if settings.ofo_baseline else None
        self.action_space = action_space(settings.action_mode, obs_config.model_labels, obs_config.feasible_batch_sizes)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (obs_config.obs_dim,), np.float32)
        self.render_mode = settings.render_mode
        self._history = EpisodeHistory()
        self._sim: Stepper | None = None
        self._episode: Episode | None = None

    # Which sites the agent sees and sets.

    def _observed_sites(self, sim: Stepper) -> list[str]:
        raise NotImplementedError

    def _labels_of(self, site: str) -> tuple[str, ...]:
        raise NotImplementedError

    # Gymnasium's interface.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; `options={"scenario": seed}` plays the record of that seed."""
        super().reset(seed=seed)
        if seed is not None:
            self._seed_workers(seed)
        self.close()
        record = self._pick(options or {})
        scenario = None if record is None or self._library is None else self._library.materialize(record)
        self._sim = as_stepper(self._make_sim(scenario_override=scenario), self._settings.total_duration_s)
        self._episode = episode_of(
            record, self._settings.truncate_episode, self._settings.total_duration_s, self._settings.dt_ctrl
        )
        self._history = EpisodeHistory()
        self._sim.start()
        for _ in range(self._episode.start_s):
            self._sim.advance(Fraction(1))
        self._sim.advance(self._settings.dt_ctrl)
        self._prev_batch = self._running_batches(self._sim)
        self._since_change = dict.fromkeys(self._obs_config.model_labels, NEVER_CHANGED)
        self._prepare_masks(self._sim)
        self._observation = self._observe(self._sim, self._prev_batch)
        return self._observation, self._info(record)

    def step(self, action: Any) -> StepResult:
        """Act, simulate one control interval, observe, reward, and end when the window does."""
        sim, episode = self._playing()
        batches = decode_action(
            action,
            self._settings.action_mode,
            self._obs_config.model_labels,
            self._obs_config.feasible_batch_sizes,
            self._prev_batch,
        )
        for site in self._observed_sites(sim):
            sim.dispatch(site, {label: batches[label] for label in self._labels_of(site)})
        episode.step += 1
        try:
            sim.advance(self._settings.dt_ctrl)
        except PowerFlowError as error:
            return self._diverged(error, episode)
        reward, info = self._reward(sim, batches, episode)
        self._observation = self._observe(sim, self._prev_batch)
        self._count_changes(batches)
        self._prev_batch = batches
        episode.over = episode.step >= episode.n_steps
        return self._observation, reward, False, episode.over, info

    def render(self) -> Any:
        """A picture of the episode so far, shape (height, width, 3); None without render_mode "rgb_array"."""
        if self.render_mode is None:
            return None
        played = None if self._episode is None else self._episode.record
        return render_episode(self._history, self._settings.reward_config, f"scenario {played.seed if played else '-'}")

    @property
    def observation_labels(self) -> tuple[str, ...]:
        """What each slot of the observation is; known once an episode has begun.

        Raises:
            EnvironmentUseError: Before the first reset.
        """
        if self._sim is None:
            raise EnvironmentUseError("observation_labels are known once reset has read the feeder; call reset first")
        return observation_labels(self._obs_config, tuple(self._sim.v_index))

    def close(self) -> None:
        """Release the simulation; may be called more than once."""
        if self._sim is not None:
            self._sim.stop()
        self._sim, self._episode = None, None

    # Parts of the above.

    def _seed_workers(self, seed: int) -> None:
        if self._worker is not None:
            self.np_random = worker_generator(seed, self._worker)
        if self._picker is not None:
            self._picker.restart(seed)

    def _pick(self, options: Mapping[str, Any]) -> ScenarioRecord | None:
        wanted = options.get("scenario")
        if self._library is None or self._picker is None:
            if wanted is not None:
                raise InvalidSettingError(f"options['scenario'] is {wanted!r}; expected none, without a library")
            return None
        return self._picker.pick(self.np_random) if wanted is None else self._library.record_for(wanted)

    def _playing(self) -> tuple[Stepper, Episode]:
        if self._sim is None or self._episode is None:
            raise EnvironmentUseError("step was called before reset; call reset first")
        if self._episode.over:
            raise EnvironmentUseError("step was called after the end of the episode; call reset first")
        return self._sim, self._episode

    def _prepare_masks(self, sim: Stepper) -> None:
        config = self._obs_config
        self._zone_mask = None if config.zone_buses is None else compute_zone_mask(sim.v_index, config.zone_buses)
        zones = config.zone_summary or {}
        self._zone_masks = [compute_zone_mask(sim.v_index, buses) for buses in zones.values()] or None

    def _datacenters(self, sim: Stepper) -> list[Any]:
        return [sim.sites[site] for site in self._observed_sites(sim)]

    def _running_batches(self, sim: Stepper) -> dict[str, int]:
        running: dict[str, int] = {}
        for datacenter in self._datacenters(sim):
            running.update(datacenter.state.batch_size_by_model)
        return {label: int(running[label]) for label in self._obs_config.model_labels}

    def _observe(self, sim: Stepper, prev_batch: Mapping[str, int]) -> Observation:
        if self.render_mode is not None and self._episode is not None:
            self._history.add(float(self._episode.time_s), sim.voltages_vector(), self._running_batches(sim))
        return build_observation(
            sim, self._datacenters(sim), self._obs_config, prev_batch, self._zone_mask, self._zone_masks
        )

    def _reward(self, sim: Stepper, batches: dict[str, int], episode: Episode) -> tuple[float, dict[str, Any]]:
        unclipped = replace(self._settings.reward_config, reward_clip=0.0)
        total, components, stats = compute_reward(
            sim,
            self._datacenters(sim),
            self._obs_config,
            unclipped,
            self._prev_batch,
            batches,
            self._settings.logistic_models,
            self._since_change,
        )
        bonus = 0.0 if self._ofo is None else self._ofo.bonus(episode)
        components["voltage"] += bonus
        # Reported beside the components, already inside "voltage": never to be summed again.
        components["ofo_baseline"] = bonus
        info = {**self._info(episode.record), "reward_components": components, "voltage_stats": stats}
        info["batch_sizes"] = dict(batches)
        return clip_reward(total + bonus, self._settings.reward_config), info

    def _count_changes(self, batches: Mapping[str, int]) -> None:
        for label, batch in batches.items():
            self._since_change[label] = 0 if batch != self._prev_batch[label] else self._since_change[label] + 1

    def _diverged(self, error: PowerFlowError, episode: Episode) -> StepResult:
        episode.over = True
        if self._settings.on_divergence == "raise":
            raise error
        info = {**self._info(episode.record), "power_flow": str(error), "reward_components": {}, "voltage_stats": {}}
        return self._observation, 0.0, False, True, info

    def _info(self, record: ScenarioRecord | None) -> dict[str, Any]:
        episode = self._episode
        return {
            "scenario": None if record is None else record.seed,
            "time_s": None if episode is None else float(episode.time_s),
            "batch_sizes": dict(self._prev_batch),
        }


class BatchSizeEnv(_BatchSizeEnv):
    """One site's batch sizes; the other sites keep theirs.

    Args:
        make_sim_fn: Makes a fresh simulation, see `scenario_lib.env.simulation.make_sim_fn`.
        obs_config: What is observed, of which models.
        agent_site_id: The agent's site; "_default" is the first.
        reward_config: Weights of the reward.
        action_mode: "delta" or "coupled".
        logistic_models: openg2g's fits, for the throughput term; None counts log2 of the batch.
        dt_ctrl: Control interval (s), a whole multiple of the simulation's tick.
        total_duration_s: Length of an episode without a library or truncation.
        scenario_library: Records are sampled from it at reset.
        ofo_baseline: Pay for doing better than OFO in the same second.
        truncate_episode: Play a record's control window only.
        on_divergence: "truncate" ends the episode when the power flow diverges, "raise" raises.
        worker: (i, k) for the i-th of k environments that train together: their scenario sequences differ and are
            reproducible from one base seed, given to the reset of each.
        coverage: "random", or "disjoint": the k workers see each scenario once before any twice.
        render_mode: "rgb_array" for a picture of the episode so far from `render`.
    """

    def __init__(  # noqa: PLR0913 - the signature is a contract
        self,
        make_sim_fn: MakeSim,
        obs_config: ObservationConfig,
        agent_site_id: str = _DEFAULT_SITE,
        reward_config: RewardConfig | None = None,
        action_mode: str = "delta",
        logistic_models: Any = None,
        dt_ctrl: Fraction = Fraction(1),
        total_duration_s: int = DURATION_S,
        scenario_library: Library | None = None,
        ofo_baseline: bool = False,
        truncate_episode: bool = False,
        on_divergence: str = "truncate",
        worker: tuple[int, int] | None = None,
        coverage: str = "random",
        render_mode: str | None = None,
    ) -> None:
        settings = EnvSettings(
            reward_config or RewardConfig(),
            action_mode,
            logistic_models,
            Fraction(dt_ctrl),
            int(total_duration_s),
            scenario_library,
            ofo_baseline,
            truncate_episode,
            on_divergence,
            worker,
            coverage,
            render_mode,
        )
        super().__init__(make_sim_fn, obs_config, settings)
        self._agent_site = agent_site_id

    def _observed_sites(self, sim: Stepper) -> list[str]:
        if self._agent_site == _DEFAULT_SITE:
            return [next(iter(sim.sites))]
        if self._agent_site not in sim.sites:
            raise UnknownNameError(f"agent_site_id is {self._agent_site!r}; expected one of {', '.join(sim.sites)}")
        return [self._agent_site]

    def _labels_of(self, site: str) -> tuple[str, ...]:  # noqa: ARG002 - there is one site
        return self._obs_config.model_labels


class SharedBatchSizeEnv(_BatchSizeEnv):
    """One policy for all sites: all models are observed and set, with one command per site.

    Args:
        site_model_mapping: Site to the labels of its models; the other arguments are those of `BatchSizeEnv`.
    """

    def __init__(  # noqa: PLR0913 - the signature is a contract
        self,
        make_sim_fn: MakeSim,
        obs_config: ObservationConfig,
        site_model_mapping: Mapping[str, tuple[str, ...]],
        reward_config: RewardConfig | None = None,
        action_mode: str = "delta",
        logistic_models: Any = None,
        dt_ctrl: Fraction = Fraction(1),
        total_duration_s: int = DURATION_S,
        scenario_library: Library | None = None,
        ofo_baseline: bool = False,
        truncate_episode: bool = False,
        on_divergence: str = "truncate",
        worker: tuple[int, int] | None = None,
        coverage: str = "random",
        render_mode: str | None = None,
    ) -> None:
        mapped = [label for labels in site_model_mapping.values() for label in labels]
        if len(set(mapped)) != len(mapped):
            raise InvalidSettingError(
                f"site_model_mapping: a label stands at two sites ({mapped}); states merge by label"
            )
        if set(mapped) != set(obs_config.model_labels):
            odd = ", ".join(sorted(set(mapped) ^ set(obs_config.model_labels)))
            raise InvalidSettingError(f"site_model_mapping and model_labels do not name the same models: {odd}")
        settings = EnvSettings(
            reward_config or RewardConfig(),
            action_mode,
            logistic_models,
            Fraction(dt_ctrl),
            int(total_duration_s),
            scenario_library,
            ofo_baseline,
            truncate_episode,
            on_divergence,
            worker,
            coverage,
            render_mode,
        )
        super().__init__(make_sim_fn, obs_config, settings)
        self._mapping = {site: tuple(labels) for site, labels in site_model_mapping.items()}

    def _observed_sites(self, sim: Stepper) -> list[str]:
        unknown = [site for site in self._mapping if site not in sim.sites]
        if unknown:
            raise UnknownNameError(f"site_model_mapping names {unknown}; expected sites among {', '.join(sim.sites)}")
        return list(self._mapping)

    def _labels_of(self, site: str) -> tuple[str, ...]:
        return self._mapping[site]
