"""The compiled engine under environments: episodes are compiled once, and a step is one call of machine code.

For whoever drives a simulation in Python, second by second, a scenario is a `Simulator` too. Environments do not use
that; both give the same numbers.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats, Ints, Singles
from scenario_lib._values import few, shown
from scenario_lib.env.action import ActionReader
from scenario_lib.env.episode import BackendSettings, DrawScenario, Episode, StepOutcome
from scenario_lib.env.figures import BackendFigures
from scenario_lib.env.observation import ObservationConfig, log_scale, shown_groups, shown_positions, summarised_zones
from scenario_lib.env.reward import relative_throughput, voltage_statistics, weights_of
from scenario_lib.errors import EnvironmentUseError, InvalidSettingError, PowerFlowError, UnknownNameError
from scenario_lib.execution.process import signals_held
from scenario_lib.feeders.circuit_files import current_digest
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.batch import BatchSettings, BatchSimulator
from scenario_lib.simulation.compiled.episode import (
    EPISODES,
    CompiledEpisode,
    SameObject,
    SiteArrays,
    compile_episode,
    window_of,
)
from scenario_lib.simulation.compiled.power_flow import Tolerance
from scenario_lib.simulation.compiled.rollout import compile_scenario
from scenario_lib.simulation.compiled.step_tables import STATISTICS, TERMS, Clock, ObservationLayout, StepArrays
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
    """One datacenter of a simulator; its state is that of the last second."""

    state: SiteState


class CompiledSimulator:
    """See `Simulator`; `sites` have their states once the first interval is simulated."""

    def __init__(
        self, scenario: Scenario, experiment: Experiment, assets: Assets, total_duration_s: int, tolerance: Tolerance
    ) -> None:
        compiled = compile_scenario(scenario, experiment, assets, total_duration_s)
        tables = compiled.tables
        self._labels, self._names = tables.model_labels, tables.site_names
        self._simulator = BatchSimulator.of([window_of(compiled)], tolerance=tolerance)
        self._beginning = self._simulator.checkpoint(0)
        self._initial = tables.batch_sizes[np.arange(len(self._labels)), tables.initial_levels]
        self._batch_sizes = self._initial.copy()
        self._observed: StepArrays | None = None
        unknown = SiteState(PhasePower(0.0, 0.0, 0.0), {}, {}, {})
        self.sites: Mapping[str, SteppedSite] = {name: SteppedSite(unknown) for name in self._names}

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._simulator.circuit.bus_phases

    def start(self) -> None:
        self._simulator.restore(0, self._beginning)
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
            second = int(self._simulator.seconds[0])
            self._observed = self._simulator.step(self._batch_sizes[None])
            if not self._observed.converged[0]:
                raise PowerFlowError(second, "step")
        for position, name in enumerate(self._names):
            self.sites[name].state = self._state(position, name)

    def voltages_vector(self) -> NDArray[np.float64]:
        if self._observed is None:
            raise InvalidSettingError("voltages are known once the first interval is simulated; call advance first")
        return np.array(self._observed.voltages_pu[0])

    def stop(self) -> None:
        """Nothing is held outside this object."""

    def _state(self, position: int, name: str) -> SiteState:
        observed = self._observed
        if observed is None:
            raise InvalidSettingError("states are known once the first interval is simulated; call advance first")
        models = [(m, label) for m, (site, label) in enumerate(self._labels) if site == name]
        replicas, itl_s = self._simulator.active_replicas(0), observed.itl_s[0]
        return SiteState(
            PhasePower(*map(float, observed.power_w[0, position])),
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
        window_s = _episode_window_s(episode)
        circuit = current_digest(Path(self.experiment.feeder.circuit))
        key = (SameObject(self), SameObject(episode.record), window_s, circuit)

        def compiled() -> CompiledEpisode:
            with opendss_held():
                scenario = self.scenario_of(draw())
                return compile_episode(scenario, self.experiment, self.assets, window_s, self.tolerance)

        return EPISODES.get(key, compiled)

    def simulator(
        self, n_slots: int, compiled: CompiledEpisode, settings: BackendSettings, held: BatchSimulator | None
    ) -> BatchSimulator:
        """A batch simulator for episodes like one; that which is held, unless its one slot is for another circuit."""
        if held is not None and (n_slots > 1 or held.circuit is compiled.circuit):
            return held
        sites = settings.choose_sites(compiled.deployment.site_names)
        fits, bus_phases = settings.env.logistic_models, compiled.circuit.bus_phases
        chosen = BatchSettings(
            Clock(_interval_seconds(settings.env.dt_ctrl), *self.tolerance),
            _layout_of(settings.obs_config, compiled.deployment, bus_phases, sites, fits),
            weights_of(settings.env.reward_config),
            settings.threads,
        )
        return BatchSimulator(n_slots, compiled.circuit, compiled.deployment, chosen)

    def scenario_of(self, override: Scenario | None) -> Scenario:
        """The scenario to play, or the experiment as it stands.

        Raises:
            InvalidSettingError: It is one of another feeder.
        """
        scenario = base_scenario(self.experiment) if override is None else override
        require_fits(scenario, self.experiment)
        return scenario


def _episode_window_s(episode: Episode) -> tuple[int, int]:
    """First second and end of what an episode simulates: one interval at reset, and one per step."""
    interval_s = _interval_seconds(episode.dt_ctrl)
    return episode.start_s, episode.start_s + (episode.n_steps + 1) * interval_s


def _interval_seconds(dt_ctrl: Fraction) -> int:
    """The control interval in the engine's ticks of 1 s.

    Raises:
        InvalidSettingError: It is no whole number of them.
    """
    if dt_ctrl.denominator != 1:
        raise InvalidSettingError(
            f"dt_ctrl is {shown(dt_ctrl)} s; expected a whole multiple of the simulation's tick of 1 s"
        )
    return int(dt_ctrl)


class CompiledBackend:
    """An `EpisodeBackend` on the compiled engine, a batch simulator of one slot: a step is one call of machine code."""

    def __init__(self, source: EpisodeSource, settings: BackendSettings) -> None:
        config = settings.obs_config
        self._source, self._settings = source, settings
        self._simulator: BatchSimulator | None = None
        self._labels = config.model_labels
        self._reader = ActionReader.of(settings.env.action_mode, config.model_labels, config.feasible_batch_sizes)

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        return self._running.circuit.bus_phases

    @signals_held()
    def begin(self, episode: Episode, draw: DrawScenario) -> tuple[Singles, dict[str, int]]:
        compiled = self._source.episode(episode, draw)
        simulator = self._simulator = self._source.simulator(1, compiled, self._settings, self._simulator)
        simulator.begin(0, compiled, self._settings.ofo_penalty(episode, compiled.n_seconds))
        simulator.progress.active[0] = True
        self._look_up_rows(simulator)
        return self._row.copy(), self._batch_sizes()

    def _look_up_rows(self, simulator: BatchSimulator) -> None:
        """Rows of arrays that every step fills in again; looked up once an episode, as a step takes microseconds."""
        outcome = simulator.outcome
        self._moves, self._converged = simulator.progress.moves[0], outcome.converged
        self._row, self._reward, self._sizes = outcome.observation[0], outcome.reward, outcome.batch_size[0]
        self._terms, self._statistics = outcome.terms[0], outcome.statistics[0]

    def play(self, action: object, episode: Episode) -> StepOutcome:
        simulator = self._running
        self._moves[:] = self._reader.read(action)
        if self._reader.absolute:
            self._moves -= simulator.feasible_positions[0]
        episode.step += 1
        simulator.play()
        if not self._converged[0]:
            unpaid = dict.fromkeys(TERMS, 0.0)
            statistics = voltage_statistics(self.voltages_vector(), self._settings.env.reward_config)
            return StepOutcome(self._row.copy(), 0.0, self._batch_sizes(), unpaid, statistics, simulator.failure(0))
        return StepOutcome(
            self._row.copy(),
            self._reward.item(),
            self._batch_sizes(),
            dict(zip(TERMS, self._terms.tolist(), strict=True)),
            dict(zip(STATISTICS, self._statistics.tolist(), strict=True)),
            None,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "CompiledBackend":
        """A backend that goes on from here by itself, with rows of its own."""
        twin = CompiledBackend(self._source, copy.deepcopy(self._settings, memo))
        twin._simulator = copy.deepcopy(self._simulator, memo)
        if twin._simulator is not None:
            twin._look_up_rows(twin._simulator)
        return twin

    def voltages_vector(self) -> NDArray[np.float64]:
        return np.array(self._running.outcome.voltages_pu[0])

    def figures(self) -> BackendFigures:
        return figures_of(self._running)

    def close(self) -> None:
        """Tables are kept for the next episode, or go with this object."""

    @property
    def _running(self) -> BatchSimulator:
        if self._simulator is None:
            raise EnvironmentUseError("no episode has begun; call reset first")
        return self._simulator

    def _batch_sizes(self) -> dict[str, int]:
        return dict(zip(self._labels, self._sizes.tolist(), strict=True))


def figures_of(simulator: BatchSimulator) -> BackendFigures:
    """What the engine shows of the last second of all slots; views of arrays that the next step fills in again."""
    layout, outcome = simulator.layout, simulator.outcome
    replicas = [simulator.active_replicas(slot) for slot in range(len(outcome.reward))]
    return BackendFigures(
        voltages_pu=outcome.voltages_pu,
        power_w=outcome.power_w[:, layout.sites],
        batch_sizes=outcome.batch_size,
        itl_s=outcome.itl_s[:, layout.model],
        active_replicas=np.stack(replicas)[:, layout.model],
        observation=outcome.observation,
    )


def _layout_of(
    config: ObservationConfig,
    deployment: SiteArrays,
    bus_phases: Sequence[tuple[str, int]],
    sites: Sequence[str],
    logistic_models: Any,
) -> ObservationLayout:
    """Where each slot comes from, and what each batch size means.

    Args:
        sites: Observed sites, in order.
        logistic_models: openg2g's fits, or None; see `compute_reward`.

    Raises:
        UnknownNameError: A model is at none of the sites.
        InvalidSettingError: The feeder has another number of bus-phases than the configuration.
    """
    models = _deployed(config, deployment, sites)
    groups, zones = shown_groups(config, len(bus_phases)), summarised_zones(config, bus_phases)
    batch_size = deployment.batch_sizes[models]
    feasible = [sorted(config.feasible_batch_sizes[label]) for label in config.model_labels]
    low, span = np.transpose([log_scale(sizes) for sizes in feasible])
    return ObservationLayout(
        shown=shown_positions(config, bus_phases),
        group_start=_starts(groups),
        group_member=_joined(groups),
        zone_start=_starts(zones),
        zone_member=_joined(zones),
        v_min=float(config.v_min),
        v_max=float(config.v_max),
        sites=np.array([deployment.site_names.index(site) for site in sites], np.int64),
        model=models,
        n_feasible=np.array([len(sizes) for sizes in feasible], np.int64),
        feasible_level=_feasible_levels(config, feasible, batch_size),
        position=_positions(feasible, batch_size),
        batch_size=batch_size,
        log2_batch=np.log2(batch_size),
        batch_feature=(np.log2(batch_size) - low[:, None]) / span[:, None],
        span=np.ascontiguousarray(span),
        deadline_s=np.array([config.itl_deadlines[label] for label in config.model_labels], float),
        max_replicas=np.array([max(config.max_replicas.get(label, 1), 1) for label in config.model_labels], float),
        throughput=_throughput(config, batch_size, logistic_models),
    )


def _deployed(config: ObservationConfig, deployment: SiteArrays, sites: Sequence[str]) -> Ints:
    """Position of each observed model among the deployed ones."""
    place = {label: m for m, (site, label) in enumerate(deployment.model_labels) if site in sites}
    for label in config.model_labels:
        if label not in place:
            raise UnknownNameError(f"model_labels: {label!r} is not at {few(sites)}; expected some of {few(place)}")
    return np.array([place[label] for label in config.model_labels], np.int64)


def _feasible_levels(config: ObservationConfig, feasible: list[list[int]], batch_size: Ints) -> Ints:
    levels = np.zeros((len(feasible), max(map(len, feasible))), np.int64)
    for k, (sizes, row) in enumerate(zip(feasible, batch_size.tolist(), strict=True)):
        for position, size in enumerate(sizes):
            if size not in row:
                raise UnknownNameError(
                    f"feasible_batch_sizes: {size} of {config.model_labels[k]}; expected among {sorted(set(row))}"
                )
            levels[k, position] = row.index(size)
    return levels


def _positions(feasible: list[list[int]], batch_size: Ints) -> Ints:
    """Place of every level's batch size among the feasible ones; the middle for one that is not."""
    return np.array(
        [
            [sizes.index(size) if size in sizes else len(sizes) // 2 for size in row]
            for sizes, row in zip(feasible, batch_size.tolist(), strict=True)
        ],
        np.int64,
    )


def _throughput(config: ObservationConfig, batch_size: Ints, logistic_models: Any) -> Floats:
    return np.array(
        [
            [relative_throughput(label, size, config, logistic_models) for size in row]
            for label, row in zip(config.model_labels, batch_size.tolist(), strict=True)
        ]
    )


def _starts(groups: Sequence[NDArray[Any]]) -> Ints:
    return np.cumsum([0, *(len(group) for group in groups)]).astype(np.int64)


def _joined(groups: Sequence[NDArray[Any]]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int64)
