"""Rewards, observations and infos of one's own: functions of the figures of the second that an observation shows::

    def reward(step: StepFigures):
        return -step.violation_pu().sum(axis=-1)

    env = gymnasium.make("scenario_lib/BatchSize-v0", library=path, reward=reward,
                         observation=("voltages", "models", "time", "forecast:300"), info=("integral_pu_s",))

A function serves one environment and E of them side by side: figures of E environments have one more axis in front, so
that sums over `axis=-1` are right for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Bools, Floats, Singles
from scenario_lib._values import likely, refused
from scenario_lib.env.figures import (
    BackendFigures,
    ElementPower,
    FigureContext,
    StepFigures,
    example_figures,
    figures_of_one,
)
from scenario_lib.env.observation import (
    MODEL_SLOTS,
    SUMMARY_SLOTS,
    bus_phase_labels,
    compute_zone_mask,
    observation_labels,
    violation_summary,
    zone_labels,
)
from scenario_lib.errors import InvalidSettingError, UnknownNameError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.metrics.voltage import outside_limits
from scenario_lib.scenario.model import Scenario

INFO_NAMES = ("voltages_pu", "power_w", "itl_s", "tokens_per_s", "integral_pu_s")
"""Figures that `info` can have by request."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A named part of an observation.

    Attributes:
        labels: One per slot.
        read: Its values, shape (..., slots).
        low, high: Bounds, to which values are clipped; per slot, or one for all.
    """

    labels: tuple[str, ...]
    read: Callable[[StepFigures], NDArray[Any]]
    low: Any = -np.inf
    high: Any = np.inf


_HIGHEST_PU = 2.0


def _voltages(context: FigureContext) -> Block:
    labels = tuple(bus_phase_labels(context.bus_phases))
    return Block(labels, lambda step: step.voltages_pu, 0.0, _HIGHEST_PU)


def _zone(context: FigureContext) -> Block:
    if context.own_zone is None:
        raise InvalidSettingError("observation 'zone-voltages': the agent has no zone of its own on this feeder")
    mask = compute_zone_mask(context.bus_phases, context.own_zone)
    labels = tuple(bus_phase_labels(compress(context.bus_phases, mask)))
    return Block(labels, lambda step: step.voltages_pu[..., mask], 0.0, _HIGHEST_PU)


def _summary(context: FigureContext) -> Block:
    first = context.config.n_bus_phases
    end = first + context.config.n_zone_summary_slots
    labels = observation_labels(context.config, context.bus_phases)[first:end]
    high = np.tile([slot.high for slot in SUMMARY_SLOTS], (end - first) // len(SUMMARY_SLOTS))
    return Block(labels, lambda step: step.observation[..., first:end], 0.0, high)


def _zones(context: FigureContext) -> Block:
    if not context.zones:
        raise InvalidSettingError("observation 'zone-summaries': this feeder has no zones")
    masks = [compute_zone_mask(context.bus_phases, buses) for buses in context.zones.values()]
    labels = tuple(zone_labels(context.zones))
    high = np.tile([slot.high for slot in SUMMARY_SLOTS], len(masks))

    def read(step: StepFigures) -> Floats:
        rows = [
            np.concatenate([violation_summary(row[mask], *context.limits_pu) for mask in masks])
            for row in step.voltages_pu.reshape(-1, len(context.bus_phases))
        ]
        return np.array(rows).reshape(*step.voltages_pu.shape[:-1], len(labels))

    return Block(labels, read, 0.0, high)


def _models(context: FigureContext) -> Block:
    first = context.config.n_bus_phases + context.config.n_zone_summary_slots
    labels = observation_labels(context.config, context.bus_phases)[first:]
    low, high = (
        np.tile([getattr(slot, end) for slot in MODEL_SLOTS], context.config.n_models) for end in ("low", "high")
    )
    return Block(labels, lambda step: step.observation[..., first:], low, high)


def _time(_: FigureContext) -> Block:
    return Block(("time of the hour (1)",), lambda step: np.asarray(step.time_s)[..., None] / DURATION_S, 0.0, 1.0)


def _powers(context: FigureContext, ahead_s: int) -> Block:
    when = f" in {ahead_s} s" if ahead_s else ""
    n_pv, n_loads = context.elements
    labels = [f"PV system {i}{when} (kW per phase)" for i in range(n_pv)]
    labels += [f"load {i}{when} (kW per phase)" for i in range(n_loads)]
    return Block(tuple(labels), lambda step: np.concatenate([step.pv_kw(ahead_s), step.load_kw(ahead_s)], axis=-1), 0.0)


_BLOCKS: dict[str, Callable[[FigureContext], Block]] = {
    "voltages": _voltages,
    "zone-voltages": _zone,
    "summary": _summary,
    "zone-summaries": _zones,
    "models": _models,
    "time": _time,
    "pv-and-load": lambda context: _powers(context, 0),
}
_FORECAST = "forecast:"

BLOCK_NAMES = (*_BLOCKS, f"{_FORECAST}SECONDS")
"""voltages: every bus-phase of the feeder. zone-voltages: those of the agent's zone. summary: worst undervoltage, worst
overvoltage, part in violation. zone-summaries: the same of each zone. models: five figures per model. time: part of the
hour. pv-and-load: power of each PV system and load now. forecast:SECONDS: the same so many seconds from now."""


def block_of(name: str, context: FigureContext) -> Block:
    """The block of a name.

    Raises:
        UnknownNameError: No such block.
        InvalidSettingError: The feeder cannot serve it, or a forecast of no whole number of seconds.
    """
    if name in _BLOCKS:
        return _BLOCKS[name](context)
    if not name.startswith(_FORECAST):
        raise UnknownNameError(f"observation: no block {name!r}; {likely(name, BLOCK_NAMES)}")
    seconds = name.removeprefix(_FORECAST)
    if not seconds.isascii() or not seconds.isdigit() or not 1 <= int(seconds[:8]) < DURATION_S:
        raise refused("observation", name, f"'forecast:' and whole seconds from 1 to {DURATION_S - 1}")
    return _powers(context, int(seconds))


Observe = Callable[[StepFigures], Any]
Reward = Callable[[StepFigures], Any]
"""The total, or the total and its components by name; each a number for one environment, of shape (E,) for E."""


@dataclass(frozen=True, slots=True, eq=False)
class Extensions:
    """What an environment shows and pays other than by default.

    Args:
        observation: Names of blocks (see `BLOCK_NAMES`), or a function that gives one row of numbers.
        reward: A function; None leaves the default reward.
        info: Some of `INFO_NAMES`.

    Raises:
        InvalidSettingError: None of these, or a function that gives something else than numbers.
        UnknownNameError: No such block or info.
    """

    context: FigureContext
    observation: Sequence[str] | Observe | None = None
    reward: Reward | None = None
    info: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if isinstance(self.info, str) or not all(isinstance(name, str) for name in self.info):
            raise refused("info", self.info, f"a list of some of {', '.join(INFO_NAMES)}")
        for name in self.info:
            if name not in INFO_NAMES:
                raise UnknownNameError(f"info: no figure {name!r}; {likely(name, INFO_NAMES)}")
        if self.reward is not None and not callable(self.reward):
            raise refused("reward", self.reward, "a RewardConfig, a mapping from its names, or a function")
        object.__setattr__(self, "info", tuple(self.info))
        object.__setattr__(self, "blocks", self._blocks())

    def _blocks(self) -> tuple[Block, ...]:
        wanted = self.observation
        if wanted is None:
            return ()
        if callable(wanted):
            shown = np.asarray(wanted(example_figures(self.context)))
            if shown.ndim != 1 or shown.dtype.kind not in "fiub":
                raise InvalidSettingError(
                    f"observation: the function gives {shown.dtype} of shape {shown.shape} for one environment; "
                    f"expected one row of numbers"
                )
            return (Block(tuple(f"observation {i}" for i in range(len(shown))), wanted),)
        if isinstance(wanted, str) or not wanted or not all(isinstance(name, str) for name in wanted):
            raise refused("observation", wanted, f"a list of some of {', '.join(BLOCK_NAMES)}, or a function")
        return tuple(block_of(name, self.context) for name in wanted)

    @property
    def labels(self) -> tuple[str, ...]:
        """One per slot of the observation; empty if it is the default one."""
        return tuple(label for block in self.blocks for label in block.labels)

    @property
    def space(self) -> gym.spaces.Box | None:
        """Space of the observation; None if it is the default one."""
        if not self.blocks:
            return None
        low, high = (
            np.concatenate([np.broadcast_to(getattr(block, end), len(block.labels)) for block in self.blocks])
            for end in ("low", "high")
        )
        return gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def observe(self, step: StepFigures) -> Singles:
        """The observation, shape (..., slots).

        Raises:
            InvalidSettingError: A function gives another number of slots than it did at first.
        """
        parts = []
        for block in self.blocks:
            part = np.asarray(block.read(step), float)
            if part.shape != (*np.shape(step.time_s), len(block.labels)):
                raise InvalidSettingError(
                    f"observation: the function gives shape {part.shape}; expected "
                    f"{(*np.shape(step.time_s), len(block.labels))}, as figures of several environments have one more "
                    f"axis in front"
                )
            parts.append(np.clip(part, block.low, block.high))
        return np.concatenate(parts, axis=-1).astype(np.float32)

    def pay(self, step: StepFigures) -> tuple[Floats, dict[str, Floats]]:
        """Total and components of the reward, each of shape (...); the default one is its only component.

        Raises:
            InvalidSettingError: The function gives other shapes, or no numbers.
        """
        if self.reward is None:
            raise InvalidSettingError("reward: no function was given")
        paid = self.reward(step)
        total, components = paid if isinstance(paid, tuple) and len(paid) == 2 else (paid, None)
        named = {"total": total} if components is None else components
        if not isinstance(named, Mapping):
            raise refused("reward", components, "components by name")
        wanted = np.shape(step.time_s)
        return _numbers(total, "total", wanted), {
            str(name): _numbers(value, name, wanted) for name, value in named.items()
        }


def _numbers(value: object, name: object, shape: tuple[int, ...]) -> Floats:
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError):
        raise refused(f"reward: {name}", value, "a number") from None
    if numbers.shape != shape:
        raise InvalidSettingError(f"reward: {name} has shape {numbers.shape}; expected {shape}, one number a step")
    return numbers


class ExtendedStep(NamedTuple):
    """What extensions make of a step of E environments; None where the default stays.

    Attributes:
        observation: Shape (E, slots).
        reward, components: Shapes (E,).
        info: By name, shapes (E, ...).
    """

    observation: Singles | None
    reward: Floats | None
    components: dict[str, Floats] | None
    info: dict[str, NDArray[Any]]


class ExtendedEpisodes:
    """Figures of E environments from step to step, and what extensions make of them.

    Args:
        single: Functions are shown the figures of the one environment rather than of E.
        interval_s: Of a step.
    """

    def __init__(self, extensions: Extensions, n: int, interval_s: float, single: bool = False) -> None:
        self._extensions, self._single, self._interval_s = extensions, single, interval_s
        self._profiles = [ElementPower(lambda: None) for _ in range(n)]
        self._fresh: Bools = np.ones(n, bool)
        self._integral_pu_s = np.zeros(n)
        self._batch_sizes = np.zeros((n, extensions.context.config.n_models), np.int64)

    def begin(self, i: int, draw: Callable[[], Scenario | None]) -> None:
        """An environment's episode begins; `draw` gives its scenario."""
        self._profiles[i], self._fresh[i] = ElementPower(draw), True

    def look(self, shown: BackendFigures, time_s: Floats, rewards: Floats, stepped: Bools) -> ExtendedStep:
        """What is shown and paid now; all of shape (E, ...).

        Args:
            rewards: By default.
            stepped: Who made a step; episodes that began since the last look are shown as begun, and all others as
                they were.
        """
        figures = self._figures(shown, time_s, rewards, stepped)
        extensions = self._extensions
        asked = figures if not self._single else figures_of_one(figures)
        observation = reward = components = None
        if extensions.blocks:
            observation = self._all(extensions.observe(asked))
        if extensions.reward is not None:
            total, parts = extensions.pay(asked)
            reward = np.where(stepped, self._all(total), 0.0)
            components = {name: np.where(stepped, self._all(part), 0.0) for name, part in parts.items()}
        return ExtendedStep(observation, reward, components, {n: getattr(figures, n) for n in extensions.info})

    def _figures(self, shown: BackendFigures, time_s: Floats, rewards: Floats, stepped: Bools) -> StepFigures:
        context = self._extensions.context
        previous = np.where((stepped & ~self._fresh)[:, None], self._batch_sizes, shown.batch_sizes)
        under, over = outside_limits(shown.voltages_pu, *context.limits_pu)
        step_pu_s = (under + over).sum(axis=1) * self._interval_s
        self._integral_pu_s = np.where(self._fresh, 0.0, self._integral_pu_s) + np.where(
            stepped | self._fresh, step_pu_s, 0.0
        )
        self._batch_sizes = np.array(shown.batch_sizes)
        self._fresh = np.zeros_like(self._fresh)
        return StepFigures(
            time_s=np.array(time_s, float),
            voltages_pu=np.array(shown.voltages_pu),
            power_w=np.array(shown.power_w),
            batch_sizes=np.array(shown.batch_sizes),
            previous_batch_sizes=previous,
            itl_s=np.array(shown.itl_s),
            active_replicas=np.array(shown.active_replicas),
            integral_pu_s=self._integral_pu_s.copy(),
            observation=np.array(shown.observation),
            reward=np.array(rewards, float),
            context=context,
            profiles=tuple(self._profiles),
        )

    def _all(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[None] if self._single else values
