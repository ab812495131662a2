"""Figures of the second that an observation shows: what rewards, observations and infos of one's own are made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from scenario_lib._arrays import Floats, Ints, Singles
from scenario_lib.env.observation import ObservationConfig
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.metrics.voltage import outside_limits
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import replica_tokens_per_s

BusPhases = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class FigureContext:
    """What figures are of, the same in every episode.

    Attributes:
        bus_phases: The feeder's N (bus, phase) pairs.
        zones: By name, their buses; empty for a feeder without zones.
        own_zone: Buses of the agent's own zone; None where it has none.
        elements: Number of PV systems and of time-varying loads.
        fits: openg2g's fits, for tokens; None leaves them unknown.
    """

    config: ObservationConfig
    bus_phases: BusPhases
    sites: tuple[str, ...]
    zones: Mapping[str, tuple[str, ...]]
    own_zone: tuple[str, ...] | None
    elements: tuple[int, int]
    fits: Any = None

    @property
    def limits_pu(self) -> tuple[float, float]:
        """The lower and the upper limit."""
        return self.config.v_min, self.config.v_max


class ElementPower:
    """Power of a scenario's PV systems and loads by the second, made when it is first asked for."""

    def __init__(self, draw: Callable[[], Scenario | None], tables: tuple[Floats, ...] | None = None) -> None:
        self._draw, self._tables = draw, tables

    def kw_per_phase(self, kind: int, second: int) -> Floats:
        """Of PV systems (0) or loads (1) at a second, the hour's last one from its end on."""
        if self._tables is None:
            scenario = self._draw()
            if scenario is None:
                raise InvalidSettingError(
                    "power of PV systems and loads is known for scenarios of a library only; give scenario_library"
                )
            seconds = np.arange(DURATION_S, dtype=float)
            pv, loads = (
                np.array([one.kw_per_phase(seconds) for one in several], float).reshape(len(several), -1)
                for several in (scenario.pv_systems, scenario.tvl)
            )
            self._tables = pv, loads
        return np.asarray(self._tables[kind][:, min(second, DURATION_S - 1)])


@dataclass(frozen=True, slots=True, eq=False)
class StepFigures:
    """Figures of the second that an observation shows.

    `...` in a shape is nothing for one environment, and E for E of them. N bus-phases, S observed sites, K observed
    models. Arrays are fresh ones.

    Attributes:
        time_s: Simulated second since the scenario began, shape (...).
        voltages_pu: In the order of `bus_phases`, shape (..., N).
        power_w: By site and phase, shape (..., S, 3).
        batch_sizes, previous_batch_sizes: After and before the step; equal at reset. Shape (..., K).
        itl_s: Observed inter-token latency, NaN where no replica runs, shape (..., K).
        active_replicas: Shape (..., K).
        integral_pu_s: Violation so far in the episode: distance outside the limits, summed over bus-phases, each step
            counted with its last second for its whole interval. Shape (...).
        observation: As the environment gives it by default, shape (..., slots).
        reward: As the environment gives it by default, 0 at reset, shape (...).
        context: Names and limits.
    """

    time_s: Floats
    voltages_pu: Floats
    power_w: Floats
    batch_sizes: Ints
    previous_batch_sizes: Ints
    itl_s: Floats
    active_replicas: Ints
    integral_pu_s: Floats
    observation: Singles
    reward: Floats
    context: FigureContext
    profiles: tuple[ElementPower, ...] = field(repr=False)

    @property
    def bus_phases(self) -> BusPhases:
        """The N (bus, phase) pairs."""
        return self.context.bus_phases

    @property
    def model_labels(self) -> tuple[str, ...]:
        """The K models."""
        return self.context.config.model_labels

    @property
    def limits_pu(self) -> tuple[float, float]:
        """The lower and the upper voltage limit."""
        return self.context.limits_pu

    @property
    def deadlines_s(self) -> Floats:
        """Latency deadline of each model, shape (K,)."""
        deadlines = self.context.config.itl_deadlines
        return np.array([deadlines[label] for label in self.model_labels], float)

    @property
    def tokens_per_s(self) -> Floats:
        """Output of all replicas by the throughput fits, shape (..., K); NaN without fits."""
        fits = self.context.fits
        if fits is None:
            return np.full(self.batch_sizes.shape, np.nan)
        of_replica = [
            replica_tokens_per_s(fits, label, self.batch_sizes[..., k]) for k, label in enumerate(self.model_labels)
        ]
        return np.stack(of_replica, axis=-1) * self.active_replicas

    def violation_pu(self) -> Floats:
        """Distance of each voltage outside the limits, 0 within, shape (..., N)."""
        under, over = outside_limits(self.voltages_pu, *self.limits_pu)
        return under + over

    def pv_kw(self, ahead_s: int = 0) -> Floats:
        """Power per phase that each PV system yields so many seconds from now, shape (..., PV systems).

        Raises:
            InvalidSettingError: The environment plays no library.
        """
        return self._elements(0, ahead_s)

    def load_kw(self, ahead_s: int = 0) -> Floats:
        """Power per phase that each time-varying load draws so many seconds from now, shape (..., loads).

        Raises:
            InvalidSettingError: The environment plays no library.
        """
        return self._elements(1, ahead_s)

    def _elements(self, kind: int, ahead_s: int) -> Floats:
        rows = [
            profiles.kw_per_phase(kind, int(second) + ahead_s)
            for profiles, second in zip(self.profiles, np.atleast_1d(self.time_s), strict=True)
        ]
        return np.array(rows).reshape(*np.shape(self.time_s), self.context.elements[kind])


class BackendFigures(NamedTuple):
    """What an engine shows of the last second of E environments; see `StepFigures`."""

    voltages_pu: Floats
    power_w: Floats
    batch_sizes: Ints
    itl_s: Floats
    active_replicas: Ints
    observation: Singles


def example_figures(context: FigureContext) -> StepFigures:
    """Figures of one environment at 1 pu, from which the length of an observation is learned."""
    config = context.config
    batch_sizes = np.array([config.get_initial_batch(label) for label in config.model_labels])
    none = np.zeros(config.n_models)
    still = ElementPower(lambda: None, tuple(np.zeros((count, DURATION_S)) for count in context.elements))
    return StepFigures(
        time_s=np.zeros(()),
        voltages_pu=np.ones(len(context.bus_phases)),
        power_w=np.zeros((len(context.sites), 3)),
        batch_sizes=batch_sizes,
        previous_batch_sizes=batch_sizes,
        itl_s=none,
        active_replicas=none.astype(np.int64),
        integral_pu_s=np.zeros(()),
        observation=np.zeros(config.obs_dim, np.float32),
        reward=np.zeros(()),
        context=context,
        profiles=(still,),
    )


_PER_ENVIRONMENT = tuple(name for name in StepFigures.__slots__ if name not in ("context", "profiles"))


def figures_of_one(figures: StepFigures) -> StepFigures:
    """Figures of the first environment, without the axis of environments."""
    return replace(figures, **{name: getattr(figures, name)[0] for name in _PER_ENVIRONMENT})
