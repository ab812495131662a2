"""One agent per site, as a parallel environment of PettingZoo; importing this module needs the package::

    env = parallel_env("libraries/ieee123")
    observations, infos = env.reset(seed=0)
    while env.agents:
        actions = {site: env.action_space(site).sample() for site in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)

Every agent observes and is paid what `BatchSizeEnv` of its site shows and pays, with the others at work beside it.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import gymnasium as gym
from pettingzoo import ParallelEnv

from scenario_lib._arrays import Bools, Floats, Singles
from scenario_lib._values import few
from scenario_lib.env.action import absolute_action, action_space, decode_action
from scenario_lib.env.batch_size_env import SharedBatchSizeEnv
from scenario_lib.env.compiled_backend import PhasePower, SiteState, SteppedSite
from scenario_lib.env.extensions import Extensions
from scenario_lib.env.factories import (
    EnvironmentParts,
    common_settings,
    figure_context,
    observation_config,
    open_environment_parts,
    simulation_of,
    site_model_mapping,
)
from scenario_lib.env.figures import BusPhases, StepFigures
from scenario_lib.env.observation import (
    ObservationConfig,
    build_observation,
    observation_labels,
    observation_space,
    zone_masks_of,
)
from scenario_lib.env.reward import RewardConfig, RewardedStep, reward_of
from scenario_lib.env.sampling import SINGLE_OPTIONS, Library
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, UnknownNameError
from scenario_lib.simulation.compiled.step_tables import NEVER_CHANGED

AgentInfo = dict[str, Any]
AgentRewards = dict[str, tuple[float, dict[str, float]]]
"""Total and terms by agent."""


@dataclass(frozen=True, slots=True)
class _Voltages:
    """A grid as observations and rewards see it."""

    v_index: BusPhases
    volts: Floats

    def voltages_vector(self) -> Floats:
        return self.volts


@dataclass(slots=True)
class _Agent:
    """A site, what of the feeder its agent observes, and since when each model has had its batch size (steps)."""

    position: int
    config: ObservationConfig
    masks: tuple[Bools | None, list[Bools] | None]
    since_change: dict[str, int] = field(default_factory=dict)

    def site(self, step: StepFigures) -> SteppedSite:
        """The site as observations and rewards see it."""
        labels = step.model_labels
        columns = [labels.index(label) for label in self.config.model_labels]
        named = {
            name: {labels[k]: getattr(step, name)[k].item() for k in columns}
            for name in ("batch_sizes", "active_replicas", "itl_s")
        }
        power_w = PhasePower(*map(float, step.power_w[self.position]))
        return SteppedSite(SiteState(power_w, named["batch_sizes"], named["active_replicas"], named["itl_s"]))


class ParallelBatchSizeEnv(ParallelEnv):  # type: ignore[misc]
    """One agent per site on the compiled or the reference engine; see the module.

    All agents begin and end together. `state()` is what `SharedBatchSizeEnv` observes. Infos are those of the shared
    environment, with the agent's own reward components.

    Args:
        parts: Library, experiment and data.
        configs: Observation of each site's agent, in site order.
        action_mode: Of the agents.
        reward: Weights for all agents.
        playing: As for `make_shared_batch_size_env`.
    """

    metadata = {"name": "scenario_lib_parallel_batch_size_v0", "render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - PettingZoo's own declaration

    def __init__(
        self,
        parts: EnvironmentParts,
        configs: Mapping[str, ObservationConfig],
        action_mode: str,
        reward: RewardConfig,
        playing: Mapping[str, Any],
    ) -> None:
        sites = parts.experiment.sites
        everything = observation_config(parts.experiment, parts.bus_phases, "full-voltage", sites)
        context = figure_context(parts, everything, sites)
        extensions = Extensions(context, reward=self._watch)
        given = {**playing, "action": "absolute", "reward": reward, "extensions": extensions}
        self._shared = SharedBatchSizeEnv(
            simulation_of(parts, given),
            everything,
            site_model_mapping(parts.experiment),
            **common_settings(parts, given),
        )
        self._agents = {
            name: _Agent(position, config, zone_masks_of(config, parts.bus_phases))
            for position, (name, config) in enumerate(configs.items())
        }
        self._fits, self._reward, self._mode = parts.assets.logistic, reward, action_mode
        self._bus_phases, self._feasible = parts.bus_phases, everything.feasible_batch_sizes
        self._step: StepFigures | None = None
        self.possible_agents = list(configs)
        self.agents: list[str] = []
        self.render_mode = self._shared.render_mode
        self.state_space = self._shared.observation_space
        self._observation_spaces = {name: observation_space(config) for name, config in configs.items()}
        self._action_spaces = {
            name: action_space(action_mode, config.model_labels, config.feasible_batch_sizes)
            for name, config in configs.items()
        }

    def observation_space(self, agent: str) -> gym.spaces.Space[Any]:
        """The space of an agent's observations."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> gym.spaces.Space[Any]:
        """The space of an agent's actions."""
        return self._action_spaces[agent]

    def observation_labels(self, agent: str) -> tuple[str, ...]:
        """One name per slot of an agent's observation."""
        return observation_labels(self._agents[agent].config, self._bus_phases)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Singles], dict[str, AgentInfo]]:
        """Begin an episode; as for `BatchSizeEnv.reset`, but options that do not exist are left out with a warning, as
        PettingZoo's wrappers and tests pass theirs on.
        """
        known = {name: value for name, value in (options or {}).items() if name in SINGLE_OPTIONS}
        if known != (options or {}):
            unknown = few(repr(name) for name in options or {} if name not in known)
            warnings.warn(
                f"reset has no options {unknown}, which have no effect; it has {few(SINGLE_OPTIONS)}", stacklevel=2
            )
        _, info = self._shared.reset(seed=seed, options=known)
        self.agents = list(self.possible_agents)
        for agent in self._agents.values():
            # Looking at the beginning counts as a step without a change.
            agent.since_change = dict.fromkeys(agent.config.model_labels, NEVER_CHANGED - 1)
        observations, rewards = self._look()
        return observations, self._infos(info, _unpaid(rewards))

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Singles], dict[str, float], dict[str, bool], dict[str, bool], dict[str, AgentInfo]]:
        """Act at all sites, simulate one control interval, observe and pay each agent.

        Raises:
            EnvironmentUseError: No episode is under way.
            UnknownNameError: An agent is missing, or there is none of a name.
            InvalidSettingError: An action of the wrong kind; nothing has happened then.
        """
        before = self._require_playing()
        if set(actions) != set(self.agents):
            raise UnknownNameError(f"actions are of agents {sorted(actions)}; expected {self.agents}")
        wanted: dict[str, int] = {}
        running = dict(zip(before.model_labels, before.batch_sizes.tolist(), strict=True))
        for name, agent in self._agents.items():
            config = agent.config
            wanted |= decode_action(
                actions[name], self._mode, config.model_labels, config.feasible_batch_sizes, running, None
            )
        ordered = {label: wanted[label] for label in before.model_labels}
        _, _, _, truncated, info = self._shared.step(absolute_action(ordered, self._feasible))
        observations, rewards = self._look()
        if info["power_flow"]:
            rewards = _unpaid(rewards)
        agents, infos = list(self.agents), self._infos(info, rewards)
        self.agents = [] if truncated else agents
        totals = {name: total for name, (total, _) in rewards.items()}
        return observations, totals, dict.fromkeys(agents, False), dict.fromkeys(agents, truncated), infos

    def state(self) -> Singles:
        """All bus-phases and all sites' models, as `SharedBatchSizeEnv` observes them."""
        return self._require_playing(ended=True).observation.copy()

    def render(self) -> Any:
        """As `BatchSizeEnv.render`, of all sites."""
        return self._shared.render()

    def close(self) -> None:
        """Release the simulation."""
        self._shared.close()
        self.agents = []

    @staticmethod
    def _infos(info: AgentInfo, rewards: AgentRewards) -> dict[str, AgentInfo]:
        return {name: {**info, "reward_components": terms} for name, (_, terms) in rewards.items()}

    def _watch(self, step: StepFigures) -> Floats:
        self._step = step
        return step.reward

    def _require_playing(self, ended: bool = False) -> StepFigures:
        if self._step is None or not (self.agents or ended):
            raise EnvironmentUseError("no episode is under way; call reset first")
        return self._step

    def _look(self) -> tuple[dict[str, Singles], AgentRewards]:
        """Each agent's observation, and its reward with components."""
        step = self._require_playing()
        grid = _Voltages(self._bus_phases, step.voltages_pu)
        before, after = (
            dict(zip(step.model_labels, sizes.tolist(), strict=True))
            for sizes in (step.previous_batch_sizes, step.batch_sizes)
        )
        observations, rewards = {}, {}
        for name, agent in self._agents.items():
            site, config = agent.site(step), agent.config
            rewarded = RewardedStep(before, after, agent.since_change)
            total, terms, _ = reward_of(grid, site, config, self._reward, self._fits, rewarded)
            observations[name] = build_observation(grid, site, config, before, *agent.masks)
            rewards[name] = total, terms
            for label in config.model_labels:
                agent.since_change[label] = 0 if before[label] != after[label] else agent.since_change[label] + 1
        return observations, rewards


def _unpaid(rewards: AgentRewards) -> AgentRewards:
    """The same terms, all of them 0."""
    return {name: (0.0, dict.fromkeys(terms, 0.0)) for name, (_, terms) in rewards.items()}


def parallel_env(
    library: str | PathLike[str] | Library,
    specs_dir: str | PathLike[str] | None = None,
    observation: str = "full-voltage",
    action: str = "delta",
    reward: RewardConfig | Mapping[str, Any] | None = None,
    **playing: Any,
) -> ParallelBatchSizeEnv:
    """A parallel environment with one agent per site; arguments as for `make_batch_size_env`, with modes and weights.

    Raises:
        InvalidSettingError: An observation or a reward that is a function, or `ofo_baseline`, which no single agent's
            reward can be measured against.
    """
    if not isinstance(observation, str) or callable(reward) or playing.get("ofo_baseline"):
        raise InvalidSettingError(
            "parallel_env takes a mode as observation, weights as reward, and no ofo_baseline; for functions of the "
            "whole feeder use SharedBatchSize-v0"
        )
    parts = open_environment_parts(library, specs_dir, playing.pop("system", None))
    configs: dict[str, ObservationConfig] = {}
    for site in parts.experiment.sites:
        configs[site.name] = observation_config(parts.experiment, parts.bus_phases, observation, (site,))
    return ParallelBatchSizeEnv(parts, configs, action, RewardConfig.of(reward), playing)
