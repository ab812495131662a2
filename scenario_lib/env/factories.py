"""Environments for people: from a library's path and a few words to an environment, or to N in lockstep.

Gymnasium's registry calls these functions for `scenario_lib/BatchSize-v0` and `scenario_lib/SharedBatchSize-v0`:
`gymnasium.make(id, library=path)`, and those of N environments by
`gymnasium.make_vec(id, num_envs=N, vectorization_mode="vector_entry_point", library=path)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from scenario_lib._values import as_path, as_system, instance_of, likely, optional, refuse
from scenario_lib.env.batch_size_env import BatchSizeEnv, SharedBatchSizeEnv
from scenario_lib.env.episode import ChooseSites, EnvSettings, as_duration, choose_agent_site, choose_mapped_sites
from scenario_lib.env.extensions import Extensions, Observe
from scenario_lib.env.extensions import Reward as PayReward
from scenario_lib.env.figures import FigureContext
from scenario_lib.env.observation import ObservationConfig, compute_bus_phase_groups, compute_zone_mask
from scenario_lib.env.reward import RewardConfig
from scenario_lib.env.sampling import Library
from scenario_lib.env.simulator import MakeSim, make_sim_fn
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.feeders.sites import Site
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import located_experiment, require_one_feeder
from scenario_lib.library.views import LibraryView
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets, load_assets
from scenario_lib.simulation.engines import COMPILED
from scenario_lib.simulation.rollout import run_reference

if TYPE_CHECKING:
    from scenario_lib.env.vector_env import BatchSizeVectorEnv


BusPhases = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class VoltageView:
    """How an observation mode shows voltages: the fields of `ObservationConfig` that it sets."""

    n_bus_phases: int
    zone_summary: Mapping[str, tuple[str, ...]] | None = None
    bus_phase_groups: tuple[tuple[int, ...], ...] | None = None


def _full_voltage(_: Experiment, bus_phases: BusPhases) -> VoltageView:
    return VoltageView(len(bus_phases))


def _per_bus(_: Experiment, bus_phases: BusPhases) -> VoltageView:
    groups = compute_bus_phase_groups(bus_phases)
    return VoltageView(2 * len(groups), bus_phase_groups=groups)


def _per_zone(experiment: Experiment, _: BusPhases) -> VoltageView:
    if not experiment.feeder.zones:
        raise InvalidSettingError(f"observation 'per-zone-summary': feeder {experiment.name} has no zones")
    return VoltageView(0, zone_summary=experiment.feeder.zones)


def _summary_only(_: Experiment, __: BusPhases) -> VoltageView:
    return VoltageView(0)


_VIEWS: dict[str, Callable[[Experiment, BusPhases], VoltageView]] = {
    "full-voltage": _full_voltage,
    "per-bus-summary": _per_bus,
    "per-zone-summary": _per_zone,
    "system-summary-only": _summary_only,
    "whole-feeder": _full_voltage,
}

OBSERVATION_MODES = tuple(_VIEWS)
"""full-voltage: every bus-phase, of the site's own zone if it has one. per-bus-summary: [lowest, highest] per bus.
per-zone-summary: the violation summary per zone. system-summary-only: one violation summary. whole-feeder: every
bus-phase, also for a site with a zone of its own."""

Observation = str | Sequence[str] | Observe
"""One of these modes, names of blocks, or a function; see `extensions`."""

Reward = RewardConfig | Mapping[str, Any] | PayReward | None
"""Weights, as a `RewardConfig` or by its names; None for the defaults; or a function, see `extensions`."""


@dataclass(frozen=True, slots=True)
class EnvironmentParts:
    """What both kinds of environment are made of.

    Attributes:
        bus_phases: The (bus, phase) pairs of the feeder's voltages.
    """

    library: Library
    experiment: Experiment
    assets: Assets
    bus_phases: BusPhases


def make_batch_size_env(
    library: str | PathLike[str] | Library,
    specs_dir: str | PathLike[str] | None = None,
    observation: Observation = "full-voltage",
    action: str = "delta",
    reward: Reward = None,
    site: str | None = None,
    **playing: Any,
) -> BatchSizeEnv:
    """An environment for one site's batch sizes.

    Args:
        library: Path of a library, an opened one, or a restricted or weighted view of one.
        specs_dir: Spec cache that the library was built on; None means the shipped one.
        observation: One of `OBSERVATION_MODES`; names of `BLOCK_NAMES`; or a function of `StepFigures`.
        action: "delta", "coupled" or "absolute".
        reward: Weights, as a `RewardConfig` or by its names; None means the defaults; or a function of `StepFigures`.
        site: The agent's site; None means the first.
        playing: `ofo_baseline`, `truncate_episode` (True here), `on_divergence`, `worker`, `coverage`, `render_mode`,
            `dt_ctrl`, `total_duration_s`; `info`, some of `INFO_NAMES`; `engine` ("compiled", the default, or
            "reference"); `system`, the experiment's TOML file for a feeder of the user's own.
    """
    made = open_environment_parts(library, specs_dir, playing.pop("system", None))
    agent = agent_site(made.experiment, site)
    config = observation_config(made.experiment, made.bus_phases, _mode_of(observation), (agent,))
    own = _extended(made, config, (agent,), (observation, reward), playing)
    given = {**playing, "action": action, **own}
    return BatchSizeEnv(simulation_of(made, given), config, agent.name, **common_settings(made, given))


def make_shared_batch_size_env(
    library: str | PathLike[str] | Library,
    specs_dir: str | PathLike[str] | None = None,
    observation: Observation = "full-voltage",
    action: str = "delta",
    reward: Reward = None,
    **playing: Any,
) -> SharedBatchSizeEnv:
    """An environment for the batch sizes of all sites; arguments as for `make_batch_size_env`."""
    made = open_environment_parts(library, specs_dir, playing.pop("system", None))
    sites = made.experiment.sites
    config = observation_config(made.experiment, made.bus_phases, _mode_of(observation), sites)
    own = _extended(made, config, sites, (observation, reward), playing)
    given = {**playing, "action": action, **own}
    mapping = site_model_mapping(made.experiment)
    return SharedBatchSizeEnv(simulation_of(made, given), config, mapping, **common_settings(made, given))


def _mode_of(observation: Observation) -> str:
    """The mode of the default observation, from which blocks take their parts."""
    if isinstance(observation, str):
        return observation
    if callable(observation) or isinstance(observation, Sequence):
        return "full-voltage"
    raise refuse("observation", observation, f"one of {', '.join(OBSERVATION_MODES)}, names of blocks, or a function")


def _extended(
    made: EnvironmentParts,
    config: ObservationConfig,
    sites: tuple[Site, ...],
    asked: tuple[Observation, Reward],
    playing: dict[str, Any],
) -> dict[str, Any]:
    """The reward's weights and the extensions that an observation, a reward and `info` ask for; takes `info` out."""
    observation, reward = asked
    own = None if isinstance(observation, str) else observation
    info = playing.pop("info", ())
    pay = reward if callable(reward) else None
    weights = {"reward": None if pay else reward}
    if own is None and pay is None and not info:
        return weights
    context = figure_context(made, config, sites)
    return {**weights, "extensions": Extensions(context, own, pay, info)}


def figure_context(made: EnvironmentParts, config: ObservationConfig, sites: tuple[Site, ...]) -> FigureContext:
    """What figures of some sites' environment are of."""
    experiment = made.experiment
    zones = {zone: tuple(buses) for zone, buses in experiment.feeder.zones.items()}
    return FigureContext(
        config=config,
        bus_phases=made.bus_phases,
        sites=tuple(site.name for site in sites),
        zones=zones,
        own_zone=zones.get(sites[0].name) if len(sites) == 1 else None,
        elements=(len(experiment.pv_systems), len(experiment.loads)),
        fits=made.assets.logistic,
    )


def agent_site(experiment: Experiment, site: str | None) -> Site:
    """The agent's site by name; None is the first.

    Raises:
        UnknownNameError: No such site.
    """
    names = [candidate.name for candidate in experiment.sites]
    if site is not None and site not in names:
        raise UnknownNameError(f"site is {site!r}; {likely(site, names)}")
    return experiment.sites[0] if site is None else experiment.sites[names.index(site)]


def observation_config(
    experiment: Experiment, bus_phases: BusPhases, observation: str, sites: tuple[Site, ...]
) -> ObservationConfig:
    """The observation of some sites' models under one of the modes.

    Raises:
        InvalidSettingError: No such mode, or one that the feeder cannot serve.
    """
    if observation not in _VIEWS:
        raise refuse("observation", observation, f"one of {', '.join(OBSERVATION_MODES)}")
    view = _VIEWS[observation](experiment, bus_phases)
    config = ObservationConfig.from_multi_site(
        {site.name: experiment.site_models(site) for site in sites},
        {site.name: {model.label: model.replicas for model in site.models} for site in sites},
        view.n_bus_phases,
        {model.label: model.initial_batch_size for site in sites for model in site.models},
        view.zone_summary,
        view.bus_phase_groups,
        experiment.limits.v_min_pu,
        experiment.limits.v_max_pu,
    )
    zone = experiment.feeder.zones.get(sites[0].name) if len(sites) == 1 else None
    if zone is None or observation != "full-voltage":
        return config
    # An agent of one site of several sees its own zone, where the feeder has one by the site's name.
    slots = int(compute_zone_mask(bus_phases, zone).sum())
    return replace(config, zone_buses=tuple(zone), n_bus_phases=slots)


def open_environment_parts(
    library: str | PathLike[str] | Library, specs_dir: str | PathLike[str] | None = None, system: str | None = None
) -> EnvironmentParts:
    """Open a library with the experiment, data and voltages that its environments need.

    Args:
        system: Experiment's TOML file, for a library on a feeder of the user's own.

    Raises:
        InvalidSettingError: The library has records of several feeders.
    """
    instance_of(str, PathLike, ScenarioLibrary, LibraryView)("library", library)
    opened = ScenarioLibrary(library) if isinstance(library, str | PathLike) else library
    recipes = list(opened.recipes.values())
    require_one_feeder(recipes, opened.path)
    experiment = located_experiment(recipes[0], optional(as_system)("system", system))
    assets = load_assets(experiment, optional(as_path)("specs_dir", specs_dir))
    # One simulated second tells which bus-phases the feeder has once all elements exist.
    bus_phases = run_reference(base_scenario(experiment), experiment, assets, n_steps=1).bus_phases
    return EnvironmentParts(opened, experiment, assets, bus_phases)


def simulation_of(made: EnvironmentParts, playing: dict[str, Any]) -> MakeSim:
    """The simulation that `engine` and `total_duration_s` among the arguments ask for; takes `engine` out."""
    duration_s = as_duration("total_duration_s", playing.get("total_duration_s", DURATION_S))
    return make_sim_fn(made.experiment, made.assets, duration_s, playing.pop("engine", COMPILED))


def site_model_mapping(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    """Every site with the labels of its models."""
    return {site.name: tuple(model.label for model in site.models) for site in experiment.sites}


def common_settings(made: EnvironmentParts, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of all environments' constructors beside simulation, observation and sites."""
    playing = dict(given)
    action, reward = playing.pop("action"), playing.pop("reward")
    if reward is not None and "reward_config" in playing:
        raise InvalidSettingError("reward and reward_config are two names for one thing; give one of them")
    return {
        "reward_config": RewardConfig.of(reward),
        "action_mode": action,
        "logistic_models": made.assets.logistic,
        "scenario_library": made.library,
        "truncate_episode": True,
        **playing,
    }


_VECTOR_SETTINGS = ("autoreset_mode", "threads", "prefetch", "max_episode_steps")


def make_batch_size_vector_env(  # noqa: PLR0913 - the words of `make_batch_size_env`, and how many
    num_envs: int,
    library: str | PathLike[str] | Library,
    specs_dir: str | PathLike[str] | None = None,
    observation: Observation = "full-voltage",
    action: str = "delta",
    reward: Reward = None,
    site: str | None = None,
    **playing: Any,
) -> "BatchSizeVectorEnv":
    """N environments of `make_batch_size_env` in lockstep.

    Args:
        num_envs: N.
        playing: As there, without the reference engine; and the fields of `VectorSettings`: `autoreset_mode`
            ("NextStep", "SameStep" or "Disabled"), `threads` (1), `prefetch` (False), `max_episode_steps` (None).
    """
    made = open_environment_parts(library, specs_dir, playing.pop("system", None))
    agent = agent_site(made.experiment, site)
    config = observation_config(made.experiment, made.bus_phases, _mode_of(observation), (agent,))
    own = _extended(made, config, (agent,), (observation, reward), playing)
    given = {**playing, "num_envs": num_envs, "action": action, **own}
    return _vector_env(made, config, partial(choose_agent_site, agent.name), given)


def make_shared_batch_size_vector_env(
    num_envs: int,
    library: str | PathLike[str] | Library,
    specs_dir: str | PathLike[str] | None = None,
    observation: Observation = "full-voltage",
    action: str = "delta",
    reward: Reward = None,
    **playing: Any,
) -> "BatchSizeVectorEnv":
    """N environments of `make_shared_batch_size_env` in lockstep; see `make_batch_size_vector_env`."""
    made = open_environment_parts(library, specs_dir, playing.pop("system", None))
    sites = made.experiment.sites
    config = observation_config(made.experiment, made.bus_phases, _mode_of(observation), sites)
    own = _extended(made, config, sites, (observation, reward), playing)
    given = {**playing, "num_envs": num_envs, "action": action, **own}
    return _vector_env(made, config, partial(choose_mapped_sites, site_model_mapping(made.experiment)), given)


def _vector_env(
    made: EnvironmentParts, config: ObservationConfig, choose_sites: ChooseSites, given: dict[str, Any]
) -> "BatchSizeVectorEnv":
    from scenario_lib.env.compiled_backend import EpisodeSource
    from scenario_lib.env.vector_env import BatchSizeVectorEnv, VectorSettings

    engine = given.get("engine")
    source = simulation_of(made, given)
    if not isinstance(source, EpisodeSource):
        raise refuse("engine", engine, "the compiled engine; OpenDSS simulates one feeder per process")
    chosen = {name: given.pop(name) for name in _VECTOR_SETTINGS if name in given}
    vector = VectorSettings(given.pop("num_envs"), **chosen)
    common = common_settings(made, given)
    settings = EnvSettings(**common)
    return BatchSizeVectorEnv(source, config, choose_sites, settings, vector)
