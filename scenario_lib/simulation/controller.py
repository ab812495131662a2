"""A controller of one's own: a function of what is known now, which says which batch sizes come next.

    def mine(now: Now) -> dict[str, int]:
        return {"Llama-3.1-8B": 64} if now.voltages_pu.min() < 0.952 else {"Llama-3.1-8B": 256}

It is called once a simulated second, on either engine: it sees the end of second t, and what it returns acts in second
t + 1, as openg2g's controllers do. An object with `__call__` may also have `reset(scenario)`, which is called before
each rollout. Controllers that ship are in `CONTROLLERS`; `load_controller` finds one by "package.module:name".
"""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
from openg2g.controller.base import Controller as OpenG2GController
from openg2g.datacenter.base import DatacenterBackend
from openg2g.datacenter.command import SetBatchSize
from openg2g.grid.base import GridBackend

from scenario_lib._arrays import Floats, Ints
from scenario_lib._values import few, refused
from scenario_lib.errors import ControllerError, UnknownNameError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario, ScenarioPower

BusPhases = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Now:
    """What a controller sees at the end of a second. Nothing in it can be changed, nor changes later.

    A model is called by its label; where two sites run the same one, by "site/label".

    Attributes:
        second: Since the scenario began.
        voltages_pu: Of the N bus-phases, shape (N,).
        bus_phases: Their (bus, phase) pairs; excluded buses are not among them.
        limits_pu: The lower and the upper limit.
        batch_sizes: Those in use, by model.
        feasible_batch_sizes: Those that a model may have, rising, by model.
        latency_s: Observed inter-token latency (s) by model; NaN where no replica runs.
        replicas: Active replicas by model.
        power_w: Power by site, each of shape (3,): one figure per phase (W).
        pv_kw, load_kw: What each PV system yields and each time-varying load draws, per phase (kW), in the
            scenario's order.
        zones: Positions in `voltages_pu` of the bus-phases of each zone; empty for a feeder without zones.
        models_of_site: By site, the models that run there.
    """

    second: int
    voltages_pu: Floats
    bus_phases: BusPhases
    limits_pu: tuple[float, float]
    batch_sizes: Mapping[str, int]
    feasible_batch_sizes: Mapping[str, tuple[int, ...]]
    latency_s: Mapping[str, float]
    replicas: Mapping[str, int]
    power_w: Mapping[str, Floats]
    pv_kw: Floats
    load_kw: Floats
    zones: Mapping[str, Ints]
    models_of_site: Mapping[str, tuple[str, ...]]


Decision = Mapping[str, int] | None
Controller = Callable[[Now], Decision]
"""Batch sizes for the next second by model; what it does not name keeps its size, and None keeps all."""


@dataclass(frozen=True, slots=True)
class ControlledScenario:
    """What stays as it is during one rollout under a controller, and how its view of a second is made from figures.

    Attributes:
        models: Their names, in the order of a rollout's columns.
        pv_kw, load_kw: Per phase (kW), shapes (T, PV systems) and (T, loads).
    """

    models: tuple[str, ...]
    sites: tuple[str, ...]
    bus_phases: BusPhases
    limits_pu: tuple[float, float]
    feasible_batch_sizes: Mapping[str, tuple[int, ...]]
    models_of_site: Mapping[str, tuple[str, ...]]
    zones: Mapping[str, Ints]
    pv_kw: Floats
    load_kw: Floats

    @classmethod
    def of(
        cls, scenario: Scenario, experiment: Experiment, bus_phases: BusPhases, n_seconds: int
    ) -> "ControlledScenario":
        """What a controller of this scenario is shown."""
        labels = Counter(model.label for site in scenario.sites for model in site.models)
        names = {
            (site.name, model.label): model.label if labels[model.label] == 1 else f"{site.name}/{model.label}"
            for site in scenario.sites
            for model in site.models
        }
        return cls(
            models=tuple(names.values()),
            sites=tuple(site.name for site in scenario.sites),
            bus_phases=bus_phases,
            limits_pu=(experiment.limits.v_min_pu, experiment.limits.v_max_pu),
            feasible_batch_sizes={
                name: tuple(sorted(experiment.spec(label).feasible_batch_sizes)) for (_, label), name in names.items()
            },
            models_of_site={
                site.name: tuple(names[site.name, model.label] for model in site.models) for site in scenario.sites
            },
            zones=_zones(experiment, bus_phases),
            pv_kw=_kw(scenario.pv_systems, n_seconds),
            load_kw=_kw(scenario.tvl, n_seconds),
        )

    def now(
        self, second: int, voltages_pu: Floats, batch_sizes: list[int], measured: tuple[Floats, Ints, Floats]
    ) -> Now:
        """The view of one second.

        Args:
            voltages_pu: Shape (N,); kept, so it must not change afterwards.
            batch_sizes: In use, one a model.
            measured: Latency (s, one a model), replicas (one a model), and power (W, shape (sites, 3)).
        """
        latency_s, replicas, power_w = measured
        voltages_pu.flags.writeable = False
        power_w.flags.writeable = False
        return Now(
            second,
            voltages_pu,
            self.bus_phases,
            self.limits_pu,
            dict(zip(self.models, batch_sizes, strict=True)),
            self.feasible_batch_sizes,
            dict(zip(self.models, latency_s.tolist(), strict=True)),
            dict(zip(self.models, replicas.tolist(), strict=True)),
            dict(zip(self.sites, power_w, strict=True)),
            self.pv_kw[second],
            self.load_kw[second],
            self.zones,
            self.models_of_site,
        )


def _zones(experiment: Experiment, bus_phases: BusPhases) -> dict[str, Ints]:
    zones = {}
    for zone, buses in experiment.feeder.zones.items():
        inside = {bus.lower() for bus in buses}
        zones[zone] = np.flatnonzero([bus.lower() in inside for bus, _ in bus_phases])
        zones[zone].flags.writeable = False
    return zones


def _kw(elements: tuple[ScenarioPower, ...], n_seconds: int) -> Floats:
    times_s = np.arange(n_seconds, dtype=float)
    table = np.array([element.kw_per_phase(times_s) for element in elements]).reshape(-1, n_seconds).T.copy()
    table.flags.writeable = False
    return table


@dataclass(frozen=True, slots=True)
class ControllerPolicy:
    """A controller as a policy of rollouts.

    Attributes:
        controller: The function, or an object that is called like one.
        name: What rollouts and tables call it.
    """

    controller: Controller
    name: str

    def reset(self, scenario: Scenario) -> None:
        """Tell the controller that a rollout begins, if it wants to know."""
        reset = getattr(self.controller, "reset", None)
        if reset is not None:
            reset(scenario)

    def decide(self, now: Now) -> Mapping[str, int]:
        """Batch sizes of the next second that are to change, each one feasible.

        Raises:
            ControllerError: The controller raised an error, or returned something else than feasible batch sizes.
        """
        try:
            wanted = self.controller(now)
        except Exception as error:
            raise ControllerError(
                f"controller {self.name} raised {type(error).__name__} at second {now.second}: {error}"
            ) from error
        if wanted is None:
            return {}
        if not isinstance(wanted, Mapping):
            raise self._refused(now, f"{wanted!r}", "batch sizes by model, or None")
        return {name: self._feasible(now, name, size) for name, size in wanted.items()}

    def _feasible(self, now: Now, name: str, size: Any) -> int:
        allowed = now.feasible_batch_sizes.get(name)
        if allowed is None:
            raise self._refused(now, f"model {name!r}", f"one of {few(now.feasible_batch_sizes)}")
        if isinstance(size, bool) or size not in allowed:
            raise self._refused(now, f"batch size {size!r} for {name}", f"one of {', '.join(map(str, allowed))}")
        return int(size)

    def _refused(self, now: Now, found: str, expected: str) -> ControllerError:
        return ControllerError(f"controller {self.name} returned {found} at second {now.second}; expected {expected}")

    def bound(self, scenario: Scenario, experiment: Experiment, n_seconds: int) -> "_BoundController":
        """The policy for one rollout on the reference engine."""
        return _BoundController(self, scenario, experiment, n_seconds)


@dataclass(frozen=True, slots=True)
class _BoundController:
    """A controller with the scenario that it is to control; makes the openg2g controller that calls it."""

    policy: ControllerPolicy
    scenario: Scenario
    experiment: Experiment
    n_seconds: int

    @property
    def name(self) -> str:
        """What rollouts call it."""
        return self.policy.name

    def controllers(self, datacenters: Mapping[str, Any], grid: Any) -> list[OpenG2GController]:
        """One openg2g controller, for all sites."""
        return [_CallingController(self, datacenters, grid)]


class _CallingController(OpenG2GController[DatacenterBackend, GridBackend]):  # type: ignore[misc]
    """Calls a controller at the end of every second, and commands what it returns."""

    def __init__(self, bound: _BoundController, datacenters: Mapping[str, Any], grid: Any) -> None:
        self._bound, self._datacenters, self._grid = bound, datacenters, grid
        self._controlled: ControlledScenario | None = None

    @property
    def dt_s(self) -> Fraction:
        return Fraction(1)

    def reset(self) -> None:
        self._controlled = None
        self._bound.policy.reset(self._bound.scenario)

    def step(self, clock: Any, events: Any) -> list[SetBatchSize]:
        del events
        second = round(clock.time_s)
        if self._controlled is None:
            bus_phases = tuple((str(bus), int(phase)) for bus, phase in self._grid.v_index)
            self._controlled = ControlledScenario.of(
                self._bound.scenario, self._bound.experiment, bus_phases, self._bound.n_seconds
            )
        wanted = self._bound.policy.decide(self._now(self._controlled, second))
        commands = []
        for site, models in self._controlled.models_of_site.items():
            sizes = {name.removeprefix(f"{site}/"): wanted[name] for name in models if name in wanted}
            if sizes:
                commands.append(SetBatchSize(batch_size_by_model=sizes, target=self._datacenters[site]))
        return commands

    def _now(self, controlled: ControlledScenario, second: int) -> Now:
        states = [datacenter.state for datacenter in self._datacenters.values()]
        latency_s = [value for state in states for value in state.observed_itl_s_by_model.values()]
        replicas = [value for state in states for value in state.active_replicas_by_model.values()]
        power_w = [(state.power_w.a, state.power_w.b, state.power_w.c) for state in states]
        return controlled.now(
            second,
            np.array(self._grid.voltages_vector()),
            [size for state in states for size in state.batch_size_by_model.values()],
            (np.array(latency_s, float), np.array(replicas), np.array(power_w)),
        )


def always_smallest(now: Now) -> Decision:
    """Every model at its smallest batch size: the least power, and the floor that a controller can reach."""
    return {name: sizes[0] for name, sizes in now.feasible_batch_sizes.items()}


def always_largest(now: Now) -> Decision:
    """Every model at its largest batch size: the most tokens."""
    return {name: sizes[-1] for name, sizes in now.feasible_batch_sizes.items()}


@dataclass(slots=True)
class Deadband:
    """Down at once where the voltage is low, up step by step where there is room: a rule with a memory.

    Each site looks at its own zone, or at the whole feeder where there is none. Below the lower limit plus `guard_pu`
    its models go to their smallest batch sizes, above the upper limit minus `guard_pu` to their largest. Where the
    lowest voltage has been above the lower limit plus `room_pu` for `wait_s` seconds, they go one size up.
    """

    guard_pu: float = 0.001
    room_pu: float = 0.008
    wait_s: int = 30
    _last_change_s: dict[str, int] = field(default_factory=dict)

    def reset(self, scenario: Scenario) -> None:
        """Forget when sizes changed."""
        del scenario
        self._last_change_s = {}

    def __call__(self, now: Now) -> Decision:
        wanted: dict[str, int] = {}
        for site, models in now.models_of_site.items():
            places = now.zones.get(site)
            voltages = now.voltages_pu if places is None or not len(places) else now.voltages_pu[places]
            moved = self._moved(now, site, models, float(voltages.min()), float(voltages.max()))
            if any(size != now.batch_sizes[name] for name, size in moved.items()):
                self._last_change_s[site] = now.second
                wanted |= moved
        return wanted

    def _moved(self, now: Now, site: str, models: tuple[str, ...], lowest: float, highest: float) -> dict[str, int]:
        v_min, v_max = now.limits_pu
        if lowest < v_min + self.guard_pu:
            return {name: now.feasible_batch_sizes[name][0] for name in models}
        if highest > v_max - self.guard_pu:
            return {name: now.feasible_batch_sizes[name][-1] for name in models}
        waited = now.second - self._last_change_s.get(site, now.second - self.wait_s) >= self.wait_s
        if lowest > v_min + self.room_pu and waited:
            return {name: _next_up(now.feasible_batch_sizes[name], now.batch_sizes[name]) for name in models}
        return {}


def _next_up(sizes: tuple[int, ...], size: int) -> int:
    return next((larger for larger in sizes if larger > size), sizes[-1])


CONTROLLERS: Mapping[str, Callable[[], Controller]] = {
    "always-smallest": lambda: always_smallest,
    "always-largest": lambda: always_largest,
    "deadband": Deadband,
}
"""Controllers that ship, by name; each call makes one anew."""


def as_controller_policy(field: str, value: Any) -> ControllerPolicy:
    """A controller as a policy: a shipped one by its name, a function, an object that is called, or a class of them.

    Raises:
        InvalidSettingError: None of these.
    """
    if isinstance(value, ControllerPolicy):
        return value
    if isinstance(value, str) and value in CONTROLLERS:
        return ControllerPolicy(CONTROLLERS[value](), value)
    if inspect.isclass(value):
        made: Any = value()
        return ControllerPolicy(made, value.__name__)
    if not callable(value):
        raise refused(field, value, "a function of `Now`, or an object that is called like one")
    return ControllerPolicy(value, getattr(value, "__name__", type(value).__name__))


def load_controller(reference: str) -> ControllerPolicy:
    """The controller that "package.module:name" refers to; a class is called to make one.

    Raises:
        UnknownNameError: No such module, or nothing of that name in it.
        InvalidSettingError: What is there cannot be called.
    """
    module, _, name = reference.partition(":")
    try:
        found = getattr(import_module(module), name)
    except ImportError as error:
        raise UnknownNameError(
            f"controller {reference!r}: {error}; give it as package.module:name, from a folder that Python imports from"
        ) from None
    except AttributeError:
        raise UnknownNameError(f"controller {reference!r}: module {module} has no {name!r}") from None
    policy = as_controller_policy("controller", found)
    return ControllerPolicy(policy.controller, reference)


def as_controller(field: str, value: Any) -> ControllerPolicy:
    """A controller as `as_controller_policy` takes it, or "package.module:name"; a converter of settings' fields."""
    if isinstance(value, str) and ":" in value:
        return load_controller(value)
    return as_controller_policy(field, value)
