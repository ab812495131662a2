"""Gymnasium environments in which an agent picks LLM batch sizes to keep a feeder's voltages in range.

Scenarios are drawn and episodes end here; an `EpisodeBackend` plays them on one of the engines.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from scenario_lib._arrays import Singles
from scenario_lib._values import few
from scenario_lib.env.action import action_space
from scenario_lib.env.episode import (
    DEFAULT_SITE,
    BackendSettings,
    EnvSettings,
    Episode,
    EpisodeBackend,
    EpisodeHistory,
    OFOBaseline,
    choose_agent_site,
    choose_mapped_sites,
    deep_copied,
    episode_of,
    plain_spec,
    render_episode,
    scenario_drawer,
)
from scenario_lib.env.extensions import ExtendedEpisodes, Extensions
from scenario_lib.env.observation import ObservationConfig, observation_space
from scenario_lib.env.reward import RewardConfig, voltage_statistics
from scenario_lib.env.sampling import (
    SINGLE_OPTIONS,
    Library,
    ScenarioSampler,
    WorkerShare,
    known_options,
    named_record,
    whole_seed,
    worker_generator,
)
from scenario_lib.env.simulator import MakeSim, SimulatorBackend
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, PowerFlowError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.simulation.compiled.step_tables import TERMS

StepResult = tuple[Singles, float, bool, bool, dict[str, Any]]


def _backend_of(make_sim: MakeSim, settings: BackendSettings) -> EpisodeBackend:
    """The backend on the engine that `make_sim` is of."""
    from scenario_lib.env.compiled_backend import CompiledBackend, EpisodeSource

    if isinstance(make_sim, EpisodeSource):
        return CompiledBackend(make_sim, settings)
    return SimulatorBackend(make_sim, settings)


class _EpisodeEnv(gym.Env[Singles, Any]):
    """An environment on either engine; subclasses say which sites the agent sees and sets."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - gymnasium's own declaration

    def __init__(self, make_sim_fn: MakeSim, obs_config: ObservationConfig, settings: EnvSettings) -> None:
        self._obs_config, self._settings = obs_config, settings
        self._library = settings.scenario_library
        self._worker = None if settings.worker is None else WorkerShare(*settings.worker)
        library, worker = self._library, self._worker
        self._sampler = None if library is None else ScenarioSampler(library, worker, settings.coverage)
        self._ofo = OFOBaseline(self._library, settings.reward_config) if settings.ofo_baseline else None
        self.backend_settings = BackendSettings(obs_config, settings, self._choose_sites, self._ofo)
        self._backend = _backend_of(make_sim_fn, self.backend_settings)
        self.action_space = action_space(settings.action_mode, obs_config.model_labels, obs_config.feasible_batch_sizes)
        self.observation_space = observation_space(obs_config, settings.extensions)
        self._extended = settings.extended(1, single=True)
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
    ) -> tuple[Singles, dict[str, Any]]:
        """Begin an episode; `options={"scenario": seed}` plays the record of that seed.

        Raises:
            InvalidSettingError: A seed that is no whole number; nothing has happened then.
            UnknownNameError: An option that does not exist, or a record; nothing has happened then.
        """
        seed = whole_seed("seed", seed)
        wanted = whole_seed("options['scenario']", known_options(options, SINGLE_OPTIONS).get("scenario"))
        named = named_record(self._library, wanted)
        super().reset(seed=seed)
        if seed is not None:
            self._seed_workers(seed)
        self.close()
        record = named if named is not None or self._sampler is None else self._sampler.pick(self.np_random)
        settings = self._settings
        episode = episode_of(record, settings.truncate_episode, settings.total_duration_s, settings.dt_ctrl)
        if self._ofo is not None:
            self._ofo.require_trace(episode)
        observation, batch_sizes = self._backend.begin(episode, scenario_drawer(self._library, record))
        self._episode, self._history = episode, EpisodeHistory(None if record is None else record.seed)
        self._remember(episode, batch_sizes)
        info = {**self._info(episode, batch_sizes), "reward_components": dict.fromkeys(TERMS, 0.0), "power_flow": ""}
        info["voltage_stats"] = voltage_statistics(self._backend.voltages_vector(), settings.reward_config)
        if self._extended is not None:
            self._extended.begin(0, scenario_drawer(self._library, record))
            observation, _ = self._extend(self._extended, episode, (observation, 0.0, False), info)
        return observation, info

    def step(self, action: Any) -> StepResult:
        """Act, simulate one control interval, observe, reward, and end when the window does."""
        episode = self._episode
        if episode is None or episode.over:
            raise self._not_playing()
        outcome = self._backend.play(action, episode)
        info = self._info(episode, outcome.batch_sizes)
        info["reward_components"], info["voltage_stats"] = outcome.components, outcome.voltage_stats
        info["power_flow"] = "" if outcome.failure is None else str(outcome.failure)
        if outcome.failure is not None:
            self._end_diverged(episode, outcome.failure)
        else:
            self._remember(episode, outcome.batch_sizes)
            episode.over = episode.step >= episode.n_steps
        observation, reward = outcome.observation, outcome.reward
        if self._extended is not None:
            shown = observation, reward, outcome.failure is None
            observation, reward = self._extend(self._extended, episode, shown, info)
        return observation, reward, False, episode.over, info

    def _extend(
        self, extended: ExtendedEpisodes, episode: Episode, shown: tuple[Singles, float, bool], info: dict[str, Any]
    ) -> tuple[Singles, float]:
        """Observation and reward as extensions make them of those by default, and whether a step was made."""
        observation, reward, stepped = shown
        now = map(np.atleast_1d, (episode.time_s, reward, stepped))
        made = extended.look(self._backend.figures(), *now)
        info.update({name: values[0] for name, values in made.info.items()})
        if made.components is not None:
            info["reward_components"] = {name: float(values[0]) for name, values in made.components.items()}
        seen = observation if made.observation is None else made.observation[0]
        return seen, reward if made.reward is None else float(made.reward[0])

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
        return self._settings.labels_of(self._obs_config, self._backend.v_index)

    def close(self) -> None:
        """Release the simulation; may be called more than once."""
        self._backend.close()
        self._episode = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "_EpisodeEnv":
        """An environment that plays on from here by itself, with equal bits for equal actions (compiled engine).

        Raises:
            NotCopyableError: An episode has begun on the reference engine.
        """
        told = self._settings, self._library, self._settings.extensions, self._obs_config, self._ofo
        return deep_copied(self, (*told, self._episode and self._episode.record), memo)

    def _seed_workers(self, seed: int) -> None:
        if self._worker is not None:
            self.np_random = worker_generator(seed, self._worker)
        if self._sampler is not None:
            self._sampler.restart(seed)

    def _not_playing(self) -> EnvironmentUseError:
        when = "before reset" if self._episode is None else "after the end of the episode"
        return EnvironmentUseError(f"step was called {when}; call reset first")

    def _end_diverged(self, episode: Episode, failure: PowerFlowError) -> None:
        episode.over = True
        if self._settings.on_divergence == "raise":
            raise failure

    def _remember(self, episode: Episode, batch_sizes: dict[str, int]) -> None:
        if self.render_mode is not None:
            self._history.add(episode.time_s, self._backend.voltages_vector(), batch_sizes)

    def _info(self, episode: Episode, batch_sizes: dict[str, int]) -> dict[str, Any]:
        record = episode.record
        return {
            "scenario": None if record is None else record.seed,
            "time_s": episode.time_s,
            "batch_sizes": batch_sizes,
        }


class BatchSizeEnv(_EpisodeEnv):
    """One site's batch sizes; the other sites keep theirs.

    Each second an agent picks the batch size of every model served at a datacenter. Larger batches serve more tokens
    with more latency, and draw more power, which moves the voltages of the feeder that the datacenter is on.

    ## Observation space

    `Box(-inf, inf, (n,), float32)`, three parts one after another; `observation_labels` names every slot.

    | slots | observation | unit | range |
    |---|---|---|---|
    | "full-voltage": one per bus-phase | voltage | pu | 0 to about 1.2 |
    | "per-bus-summary": two per bus | lowest and highest voltage of its phases | pu | 0 to about 1.2 |
    | "per-zone-summary", "system-summary-only": none | | | |
    | then 1 | worst undervoltage, `v_min` less voltage, 0 within limits | pu | 0 to `v_min` |
    | then 1 | worst overvoltage, voltage less `v_max`, 0 within limits | pu | 0 up |
    | then 1 | part of bus-phases outside the limits | 1 | 0 to 1 |
    | per model 1 | batch size on a log scale from the smallest feasible (0) to the largest (1) | 1 | 0 to 1 |
    | per model 1 | observed inter-token latency over its deadline, 0 if unknown | 1 | 0 to 3, clipped |
    | per model 1 | active replicas over those at the experiment's start | 1 | 0 up, can exceed 1 |
    | per model 1 | power of the observed sites, all phases together | MW | 0 up |
    | per model 1 | change of batch size by this step, on the same log scale | 1 | -1 to 1, clipped |

    An agent of a site by whose name the feeder has a zone observes, under "full-voltage", that zone only. The summary
    of violations is over the observed zone if there is one, else over all bus-phases; under
    "per-zone-summary" its three slots come once per zone, in the feeder's order.

    ## Action space

    | mode | space | number | meaning |
    |---|---|---|---|
    | "delta" | `MultiDiscrete([3] * models)` | 0, 1, 2 | that model: one feasible size down, the same, up |
    | "coupled" | `Discrete(2 k + 1)` | a | every model: a - k feasible sizes up |
    | "absolute" | `MultiDiscrete([sizes of each model])` | a | that model: its a-th feasible size, the smallest 0 |

    k is the fewest feasible sizes of a model, less one. Moves end at the smallest and the largest size. They act within
    the second that the step simulates.

    ## Reward

    The sum of the terms, each in `info["reward_components"]`, at least `-reward_clip` if that is set.

    | term | value |
    |---|---|
    | voltage | -`w_voltage` x sum over all bus-phases of the squared violation (pu^2) |
    | throughput | +`w_throughput` x sum over models of throughput relative to that at the largest batch size |
    | latency | -`w_latency` x sum over late models of (latency - deadline) / deadline |
    | switch | -`w_switch` x sum over models whose batch changed of what `switch_mode` says |
    | safe | +`w_safe` x part of bus-phases within limits |
    | ofo_baseline | with `ofo_baseline`: +`w_voltage` x OFO's squared violations then; inside "voltage" already |

    `switch_mode` "magnitude": the change in log2; "binary": 1; "cooldown": exp(-steps since its last change / tau).

    ## Start and end of an episode

    A record is drawn from the library, or named by `reset(options={"scenario": seed})`. With `truncate_episode` the
    episode is the record's control window: everything before was simulated at the initial batch sizes. It has
    (end - start) / `dt_ctrl` - 1 steps, then `truncated` is True; `terminated` never is. A power flow that diverges
    ends it too, with reward 0 and the last valid observation; or raises, see `on_divergence`.

    `info` has `scenario` (the record's seed), `time_s` (simulated second shown), `batch_sizes`, `reward_components`
    (all 0 at reset), `voltage_stats` (`max_under`, `max_over`, `violation_frac`, over all bus-phases), `power_flow`
    (what went wrong if it diverged, else an empty text), and what `extensions` ask for: the same names at each step.

    ## Seeds

    `reset(seed=s)` decides the scenario and all that follows. Gymnasium's and Stable-Baselines3's vector environments
    give environment i the seed s + i, so that base seeds next to each other share environments' seeds; that is all
    `reset(seed)` can promise there. With `worker=(i, k)`, and in `BatchSizeVectorEnv`, streams are keyed by (s, i)
    instead and never meet, and `coverage="disjoint"` is possible; give every worker the same s.

    ## Engines

    On the compiled engine any number of environments live in one process. On the reference engine it is one, as
    OpenDSS has one circuit per process; another one's reset makes its next step an `EngineInUseError`.

    ## Version history

    * v0: first version.

    Args:
        make_sim_fn: Makes a fresh simulation, see `scenario_lib.env.simulator.make_sim_fn`.
        obs_config: What is observed, of which models.
        agent_site_id: The agent's site; "_default" is the first.
        reward_config: Weights of the reward, as a `RewardConfig` or by its names.
        action_mode: "delta", "coupled" or "absolute".
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
        extensions: Observation, reward and infos of one's own, see `Extensions`.
    """

    def __init__(  # noqa: PLR0913 - the signature is a contract
        self,
        make_sim_fn: MakeSim,
        obs_config: ObservationConfig,
        agent_site_id: str = DEFAULT_SITE,
        reward_config: RewardConfig | Mapping[str, Any] | None = None,
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
        extensions: Extensions | None = None,
    ) -> None:
        settings = EnvSettings(
            RewardConfig.of(reward_config),
            action_mode,
            logistic_models,
            dt_ctrl,
            total_duration_s,
            scenario_library,
            ofo_baseline,
            truncate_episode,
            on_divergence,
            worker,
            coverage,
            render_mode,
            extensions,
        )
        super().__init__(make_sim_fn, obs_config, settings)
        self._agent_site = agent_site_id

    def _choose_sites(self, sites: Sequence[str]) -> list[str]:
        return choose_agent_site(self._agent_site, sites)


class SharedBatchSizeEnv(_EpisodeEnv):
    """One policy for all sites: all models are observed and set, with one command per site.

    ## Observation space

    As for `BatchSizeEnv`, of all bus-phases and with the five slots of every model of every site, in the order of
    `model_labels`:

    | slots | observation | unit |
    |---|---|---|
    | all bus-phases, two per bus, or none | voltages | pu |
    | 3, or 3 per zone | worst undervoltage, worst overvoltage, part of bus-phases in violation | pu, pu, 1 |
    | 5 per model | batch size, latency, replicas, power of **all** sites, change of batch | 1, 1, 1, MW, 1 |

    ## Action space

    | mode | space | meaning |
    |---|---|---|
    | "delta" | `MultiDiscrete([3] * models)` | each model one feasible batch size down, the same, up |
    | "coupled" | `Discrete(2 k + 1)` | all models of all sites move by a - k sizes |
    | "absolute" | `MultiDiscrete([sizes of each model])` | each model takes that of its feasible sizes |

    ## Reward

    | term | value |
    |---|---|
    | voltage, safe, ofo_baseline | as for `BatchSizeEnv`, which are over all bus-phases there too |
    | throughput, latency, switch | summed over the models of all sites |

    Start and end of an episode, `info`, seeds and engines are as for `BatchSizeEnv`.

    ## Version history

    * v0: first version.

    Args:
        site_model_mapping: Site to the labels of its models; the other arguments are those of `BatchSizeEnv`.
    """

    def __init__(  # noqa: PLR0913 - the signature is a contract
        self,
        make_sim_fn: MakeSim,
        obs_config: ObservationConfig,
        site_model_mapping: Mapping[str, tuple[str, ...]],
        reward_config: RewardConfig | Mapping[str, Any] | None = None,
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
        extensions: Extensions | None = None,
    ) -> None:
        mapped = [label for labels in site_model_mapping.values() for label in labels]
        if len(set(mapped)) != len(mapped):
            raise InvalidSettingError(
                f"site_model_mapping: a label stands at two sites ({mapped}); states merge by label"
            )
        if set(mapped) != set(obs_config.model_labels):
            odd = few(sorted(set(mapped) ^ set(obs_config.model_labels)))
            raise InvalidSettingError(f"site_model_mapping and model_labels do not name the same models: {odd}")
        settings = EnvSettings(
            RewardConfig.of(reward_config),
            action_mode,
            logistic_models,
            dt_ctrl,
            total_duration_s,
            scenario_library,
            ofo_baseline,
            truncate_episode,
            on_divergence,
            worker,
            coverage,
            render_mode,
            extensions,
        )
        super().__init__(make_sim_fn, obs_config, settings)
        self._mapping = {site: tuple(labels) for site, labels in site_model_mapping.items()}

    def _choose_sites(self, sites: Sequence[str]) -> list[str]:
        return choose_mapped_sites(self._mapping, sites)
