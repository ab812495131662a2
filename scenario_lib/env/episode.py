"""An episode as environments see it: its window in seconds, and a backend on which it begins and is played.

Also what environments are told beside simulation and observation, the OFO penalty that an agent is measured against,
how environments are copied in the midst of an episode, and pictures of an episode so far.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from fractions import Fraction
from os import PathLike, fspath
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from scenario_lib._arrays import Floats, Singles
from scenario_lib._values import (
    as_text,
    as_whole_number,
    convert_fields,
    few,
    instance_of,
    likely,
    optional,
    refuse,
    refused,
    require_count,
    shown,
    tuple_of,
)
from scenario_lib.env.action import require_mode
from scenario_lib.env.extensions import ExtendedEpisodes, Extensions
from scenario_lib.env.figures import BackendFigures
from scenario_lib.env.observation import ObservationConfig, observation_labels
from scenario_lib.env.reward import RewardConfig
from scenario_lib.env.sampling import Library, WorkerShare
from scenario_lib.errors import InvalidSettingError, PowerFlowError, UnknownNameError
from scenario_lib.feeders.experiment import DURATION_S, VoltageLimits
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.model import Scenario

_DIVERGENCE_MODES = ("truncate", "raise")


_LONGEST_S = 86_400


def as_interval(field: str, value: Any) -> Fraction:
    """A control interval (s), more than 0: a number, a fraction, or the text of one."""
    try:
        interval = Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise refused(field, value, "a number of seconds") from None
    if isinstance(value, bool) or not 0 < interval <= _LONGEST_S:
        raise InvalidSettingError(f"{field} is {shown(interval)} s; expected more than 0 s, up to {_LONGEST_S} s")
    return interval


def as_duration(field: str, value: Any) -> int:
    """Length of an episode (s), up to a day."""
    duration_s = as_whole_number(field, value)
    require_count(field, duration_s, 1, _LONGEST_S)
    return duration_s


def as_worker(field: str, value: Any) -> tuple[int, int]:
    """(i, k): the i-th of k."""
    pair = tuple_of(as_whole_number)(field, value)
    if len(pair) != 2:
        raise refused(field, value, "(i, k) with 0 <= i < k")
    WorkerShare(*pair)
    return pair[0], pair[1]


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """Settings of both environments and of the vector environment; see `BatchSizeEnv` for each."""

    reward_config: RewardConfig = field(default_factory=RewardConfig)
    action_mode: str = "delta"
    logistic_models: Any = None
    dt_ctrl: Fraction = Fraction(1)
    total_duration_s: int = DURATION_S
    scenario_library: Library | None = None
    ofo_baseline: bool = False
    truncate_episode: bool = False
    on_divergence: str = "truncate"
    worker: tuple[int, int] | None = None
    coverage: str = "random"
    render_mode: str | None = None
    extensions: Extensions | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward_config", RewardConfig.of(self.reward_config))
        convert_fields(
            self, dt_ctrl=as_interval, total_duration_s=as_duration, worker=optional(as_worker), coverage=as_text
        )
        require_mode(self.action_mode)
        if self.on_divergence not in _DIVERGENCE_MODES:
            raise refuse("on_divergence", self.on_divergence, f"one of {', '.join(_DIVERGENCE_MODES)}")
        if self.render_mode not in (None, "rgb_array"):
            raise refuse("render_mode", self.render_mode, "None or 'rgb_array'")
        optional(instance_of(Extensions))("extensions", self.extensions)

    def labels_of(self, config: ObservationConfig, bus_phases: Sequence[tuple[str, int]]) -> tuple[str, ...]:
        """One name per slot of an observation: of the extensions', or of the default one."""
        own = () if self.extensions is None else self.extensions.labels
        return own or observation_labels(config, tuple(bus_phases))

    def extended(self, n: int, single: bool = False) -> ExtendedEpisodes | None:
        """Extensions of so many environments; None if all is as by default."""
        if self.extensions is None:
            return None
        return ExtendedEpisodes(self.extensions, n, float(self.dt_ctrl), single)


@dataclass(slots=True)
class Episode:
    """One episode's window and where it stands.

    Attributes:
        record: The played record; None for the experiment as it stands.
        start_s: First second that is observed.
        n_steps: Steps until the window ends.
        step: Steps taken.
        over: No further step may be taken.
    """

    record: ScenarioRecord | None
    start_s: int
    n_steps: int
    dt_ctrl: Fraction
    step: int = 0
    over: bool = False
    _dt_s: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._dt_s = float(self.dt_ctrl)

    @property
    def time_s(self) -> float:
        """Simulated second that the last observation shows."""
        return self.start_s + self.step * self._dt_s


def episode_of(record: ScenarioRecord | None, truncate: bool, total_duration_s: int, dt_ctrl: Fraction) -> Episode:
    """The window of one episode.

    Raises:
        InvalidSettingError: The window has no step.
    """
    windowed = record is not None and truncate
    start_s, end_s = (record.t_control_start, record.t_control_end) if windowed and record else (0, total_duration_s)
    n_steps = int(Fraction(end_s - start_s) / dt_ctrl) - 1
    if n_steps < 1:
        raise InvalidSettingError(f"the episode window {start_s} to {end_s} s has no step of {shown(dt_ctrl)} s")
    return Episode(record, start_s, n_steps, dt_ctrl)


class OFOBaseline:
    """Pays the agent for doing better than OFO did in the same simulated second."""

    def __init__(self, library: Library | None, reward_config: RewardConfig) -> None:
        if library is None:
            raise InvalidSettingError("ofo_baseline needs a scenario library, which has OFO's penalties")
        for recipe in library.recipes.values():
            limits = recipe.experiment.limits
            if (limits.v_min_pu, limits.v_max_pu) != (reward_config.v_min, reward_config.v_max):
                raise InvalidSettingError(
                    f"reward limits {reward_config.v_min} to {reward_config.v_max} pu are not those of the library "
                    f"({limits.v_min_pu} to {limits.v_max_pu} pu), so OFO's penalties do not compare"
                )

    def penalty(self, episode: Episode) -> float:
        """OFO's penalty (pu^2) at the simulated second of the step just taken."""
        return float(self._trace(episode)[int(episode.time_s)])

    def window_penalty(self, episode: Episode, n_seconds: int) -> NDArray[np.float64]:
        """OFO's penalty (pu^2) at every second of the episode, shape (n_seconds,)."""
        return np.asarray(self._trace(episode)[episode.start_s : episode.start_s + n_seconds], float)

    def require_trace(self, episode: Episode) -> None:
        """Refuse an episode that OFO's trace does not cover.

        Raises:
            InvalidSettingError: It is shorter, or there is none.
        """
        last = int(episode.start_s + episode.n_steps * episode.dt_ctrl)
        trace = self._trace(episode)
        if last >= len(trace):
            raise InvalidSettingError(
                f"the episode reaches second {last}, but OFO's penalty trace has {len(trace)} seconds"
            )

    def _trace(self, episode: Episode) -> NDArray[np.float64]:
        if episode.record is None:
            raise InvalidSettingError("ofo_baseline needs a record with OFO's penalties")
        return episode.record.ofo_voltage_pen_per_step


DrawScenario = Callable[[], Scenario | None]
"""Gives the scenario of an episode's record, None for the experiment as it stands."""


def scenario_drawer(library: Library | None, record: ScenarioRecord | None) -> DrawScenario:
    """Gives the scenario of a record, None without one; a scenario that was compiled before is not drawn again."""

    def draw() -> Scenario | None:
        return None if library is None or record is None else library.materialize(record)

    return draw


ChooseSites = Callable[[Sequence[str]], list[str]]
"""From the names of all sites to those that the agent sees and sets."""


DEFAULT_SITE = "_default"
"""Stands for the first site."""


def choose_agent_site(agent_site_id: str, sites: Sequence[str]) -> list[str]:
    """The agent's site; "_default" is the first.

    Raises:
        UnknownNameError: No such site.
    """
    if agent_site_id == DEFAULT_SITE:
        return [sites[0]]
    if agent_site_id not in sites:
        raise UnknownNameError(f"agent_site_id is {agent_site_id!r}; {likely(agent_site_id, sites)}")
    return [agent_site_id]


def choose_mapped_sites(mapping: Mapping[str, Sequence[str]], sites: Sequence[str]) -> list[str]:
    """The sites of a mapping from site to models.

    Raises:
        UnknownNameError: One of them does not exist.
    """
    unknown = [site for site in mapping if site not in sites]
    if unknown:
        raise UnknownNameError(f"site_model_mapping names {unknown}; expected sites among {few(sites)}")
    return list(mapping)


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """What backends are told.

    Attributes:
        ofo: Set if the agent is paid for doing better than OFO.
        threads: Environments side by side are shared out among so many.
    """

    obs_config: ObservationConfig
    env: EnvSettings
    choose_sites: ChooseSites
    ofo: OFOBaseline | None
    threads: int = 1

    def ofo_penalty(self, episode: Episode, n_seconds: int) -> NDArray[np.float64] | None:
        """OFO's penalty (pu^2) at every second of an episode, shape (n_seconds,); None if it is not paid for."""
        return None if self.ofo is None else self.ofo.window_penalty(episode, n_seconds)


class StepOutcome(NamedTuple):
    """What a step brings.

    Attributes:
        batch_sizes: Of the observed models.
        components: Terms of the reward, and the OFO bonus that is inside "voltage".
        failure: Set if the power flow diverged; reward and components are 0 then, all else is as before the step.
    """

    observation: Singles
    reward: float
    batch_sizes: dict[str, int]
    components: dict[str, float]
    voltage_stats: dict[str, float]
    failure: PowerFlowError | None


class EpisodeBackend(Protocol):
    """One episode after another on some engine."""

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        """The (bus, phase) pairs of the feeder, once an episode has begun."""
        ...

    def begin(self, episode: Episode, draw: DrawScenario) -> tuple[Singles, dict[str, int]]:
        """Simulate up to the episode's start and one interval more; the observation and the batch sizes that run.

        Raises:
            PowerFlowError: The power flow diverges on the way.
        """
        ...

    def play(self, action: object, episode: Episode) -> StepOutcome:
        """One step; advances `episode.step`.

        Raises:
            InvalidSettingError: An action of the wrong kind; nothing has happened then.
        """
        ...

    def voltages_vector(self) -> NDArray[np.float64]:
        """Voltages (pu) of the last second."""
        ...

    def figures(self) -> BackendFigures:
        """All figures of the last second, as of one of E = 1 environments."""
        ...

    def close(self) -> None:
        """Release what the episode holds."""
        ...


Env = TypeVar("Env")


def deep_copied(env: Env, shared: Iterable[object], memo: dict[int, Any]) -> Env:
    """A deep copy of an environment that shares some objects with it, all of which playing leaves unchanged."""
    memo.update((id(one), one) for one in shared)
    twin = object.__new__(type(env))
    memo[id(env)] = twin
    vars(twin).update({name: copy.deepcopy(value, memo) for name, value in vars(env).items()})
    return twin


def plain_spec(spec: EnvSpec | None) -> EnvSpec | None:
    """The spec with paths, fractions and weights as texts and mappings, of which an equal environment is made."""
    if spec is None:
        return None
    return replace(spec, kwargs={name: _plain(value) for name, value in spec.kwargs.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Fraction):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(slots=True)
class EpisodeHistory:
    """What a picture needs of the steps so far.

    Attributes:
        scenario: Seed of the played record; None without one.
    """

    scenario: int | None = None
    time_s: list[float] = field(default_factory=list)
    lowest_pu: list[float] = field(default_factory=list)
    highest_pu: list[float] = field(default_factory=list)
    batch_sizes: list[dict[str, int]] = field(default_factory=list)

    def add(self, time_s: float, voltages_pu: Floats, batch_sizes: dict[str, int]) -> None:
        """One more second."""
        self.time_s.append(time_s)
        self.lowest_pu.append(float(voltages_pu.min()))
        self.highest_pu.append(float(voltages_pu.max()))
        self.batch_sizes.append(dict(batch_sizes))


class VectorHistory:
    """What pictures of N episodes side by side need.

    Args:
        labels: Observed models.
    """

    def __init__(self, n: int, labels: Sequence[str]) -> None:
        self._labels = labels
        self._histories = [EpisodeHistory() for _ in range(n)]

    def begin(self, i: int, scenario: int | None) -> None:
        """A new episode in slot i."""
        self._histories[i] = EpisodeHistory(scenario)

    def add(self, slots: Iterable[int], time_s: Floats, voltages_pu: Floats, batch_sizes: NDArray[np.int64]) -> None:
        """One more second of some slots; arrays have a row for each of the N."""
        for i in slots:
            sizes = dict(zip(self._labels, batch_sizes[i].tolist(), strict=True))
            self._histories[i].add(float(time_s[i]), voltages_pu[i], sizes)

    def pictures(self, limits: RewardConfig) -> tuple[NDArray[np.uint8], ...]:
        """One picture per slot."""
        return tuple(render_episode(history, limits) for history in self._histories)


def render_episode(history: EpisodeHistory, limits: RewardConfig) -> NDArray[np.uint8]:
    """The picture as an RGB array, shape (height, width, 3).

    Raises:
        MissingExtraError: matplotlib (the extra `plot`) is not installed.
    """
    from scenario_lib.plotting.hour import draw_episode

    labels = history.batch_sizes[0] if history.batch_sizes else ()
    batches = {label: [sizes[label] for sizes in history.batch_sizes] for label in labels}
    title = f"scenario {'-' if history.scenario is None else history.scenario}"
    envelope = (np.array(history.time_s), np.array(history.lowest_pu), np.array(history.highest_pu))
    return draw_episode(envelope, batches, VoltageLimits(limits.v_min, limits.v_max), title)
