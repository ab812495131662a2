"""A window of a compiled scenario, ready to be played: its tables, and the state of the feeder when it begins.

The path to a second matters at 1e-5 pu, so the power flow's state there is kept as a checkpoint, or walked to again.
A process keeps as many episodes as fit its memory: a scenario that is played again begins within milliseconds.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats, Ints
from scenario_lib._values import require_at_least
from scenario_lib.errors import InvalidSettingError, NotModelledError, PowerFlowError
from scenario_lib.execution.process import fork_safe_lock
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.compiled.circuit import Circuit
from scenario_lib.simulation.compiled.datacenter import DatacenterTables
from scenario_lib.simulation.compiled.jit import compiling_once
from scenario_lib.simulation.compiled.power_flow import OPENDSS, Tolerance
from scenario_lib.simulation.compiled.rollout import (
    CONVERGED,
    CompiledScenario,
    compile_scenario,
    empty_record,
    run_uncontrolled,
    start_of,
)
from scenario_lib.simulation.compiled.step_kernels import fill_itl_table, fill_power_table


@dataclass(frozen=True, slots=True)
class GridCheckpoint:
    """All that the power flow of `second` depends on, besides what the scenario prescribes.

    Attributes:
        v: Node voltages of the second before (V), ground last, shape (n + 1,).
        magnitude_v: Their magnitudes, shape (n,).
        admittance: Admittances that Y holds for each load part (S), shape (K,).
    """

    second: int
    v: NDArray[np.complex128]
    magnitude_v: NDArray[np.float64]
    admittance: NDArray[np.complex128]


def baseline_checkpoint(compiled: CompiledScenario, second: int, tolerance: Tolerance = OPENDSS) -> GridCheckpoint:
    """Where the baseline stands when `second` is next: the start of an episode inside a rollout.

    Raises:
        PowerFlowError: The power flow does not converge before.
    """
    network, state, *prescribed = start_of(compiled)
    record = empty_record(compiled, second)
    with compiling_once("policy-none"):
        failed, outcome = run_uncontrolled(network, state, *prescribed, tolerance, record)
    if outcome != CONVERGED:
        raise PowerFlowError(failed, "step")
    return GridCheckpoint(second, state.v, state.magnitude_v, state.admittance)


class EpisodeTables(NamedTuple):
    """What a window of T seconds prescribes, whatever is decided; see `DatacenterArrays` and `LoadArrays` for more.

    Attributes:
        model_power_w: Power of each model at each batch level and phase (W), shape (T, M, L, 3).
        training_w: Shape (runs, T).
        element_kw: Shape (T, E).
        itl_s: Latency of each model at each batch level, NaN without a replica, shape (T, M, L).
        active_replicas: Shape (T, M).
        base_w: Shape (S,).
    """

    model_power_w: Floats
    training_w: Floats
    element_kw: Floats
    itl_s: Floats
    active_replicas: Ints
    base_w: Floats


@dataclass(frozen=True, slots=True)
class SiteArrays:
    """What stands at which site; the same for every scenario of an experiment.

    Attributes:
        site_names, model_labels: Names of the S sites, and (site, label) of the M models.
        site_of_model: Shape (M,).
        batch_sizes: Batch size of each level, rising, filled up with the largest, shape (M, L).
        n_levels: Levels of each model, shape (M,).
        datacenter_tan, element_tan: Reactive per active power.
        element_of_part: See `LoadArrays`.
    """

    site_names: tuple[str, ...]
    model_labels: tuple[tuple[str, str], ...]
    site_of_model: Ints
    batch_sizes: Ints
    n_levels: Ints
    datacenter_tan: float
    element_tan: Floats
    element_of_part: Ints


@dataclass(frozen=True, slots=True)
class CompiledEpisode:
    """A window of one scenario; playing leaves it unchanged.

    Attributes:
        tables: From second `checkpoint.second` on.
        checkpoint: Where the baseline stands when the window begins.
        initial_levels: Batch level of each model until the agent acts, shape (M,).
    """

    circuit: Circuit
    deployment: SiteArrays
    tables: EpisodeTables
    checkpoint: GridCheckpoint
    initial_levels: Ints

    @property
    def n_seconds(self) -> int:
        return len(self.tables.active_replicas)

    @property
    def n_bytes(self) -> int:
        """Memory of the tables."""
        return sum(int(table.nbytes) for table in self.tables)


def compile_episode(
    scenario: Scenario,
    experiment: Experiment,
    assets: Assets,
    window_s: tuple[int, int],
    tolerance: Tolerance = OPENDSS,
) -> CompiledEpisode:
    """Compile the seconds `window_s` (start, end) of a scenario, and run the baseline up to the start.

    Raises:
        InvalidSettingError: An empty window.
        NotModelledError: The engine does not model the feeder, or a model starts at a batch size that it cannot have.
        PowerFlowError: The power flow does not converge before the window.
    """
    start, stop = window_s
    if not 0 <= start < stop:
        raise InvalidSettingError(f"the window is {start} to {stop} s; expected a start of at least 0 before its end")
    return window_of(compile_scenario(scenario, experiment, assets, stop), start, tolerance)


def window_of(compiled: CompiledScenario, start: int = 0, tolerance: Tolerance = OPENDSS) -> CompiledEpisode:
    """A compiled scenario from second `start` on, where the baseline stands then.

    Raises:
        InvalidSettingError: The scenario was compiled for fewer seconds.
        NotModelledError: A model starts at a batch size that it cannot have.
        PowerFlowError: The power flow does not converge before the window.
    """
    n_seconds = len(compiled.tables.active_replicas)
    if not 0 <= start < n_seconds:
        raise InvalidSettingError(f"the window starts at {start} s; expected 0 to {n_seconds - 1} s")
    _require_initial_levels(compiled.scenario, compiled.tables)
    return CompiledEpisode(
        circuit=compiled.circuit,
        deployment=_deployment(compiled),
        tables=_window(compiled, start),
        checkpoint=baseline_checkpoint(compiled, start, tolerance),
        initial_levels=compiled.tables.initial_levels,
    )


def _require_initial_levels(scenario: Scenario, tables: DatacenterTables) -> None:
    models = [model for site in scenario.sites for model in site.models]
    for model, row in zip(models, tables.batch_sizes.tolist(), strict=True):
        if model.initial_batch_size not in row:
            raise NotModelledError(f"initial batch size {model.initial_batch_size} of model {model.label}")


def _deployment(compiled: CompiledScenario) -> SiteArrays:
    tables, load_arrays = compiled.tables, compiled.load_arrays
    return SiteArrays(
        site_names=tables.site_names,
        model_labels=tables.model_labels,
        site_of_model=tables.site_of_model,
        batch_sizes=tables.batch_sizes,
        n_levels=tables.n_levels,
        datacenter_tan=load_arrays.datacenter_tan,
        element_tan=load_arrays.element_tan,
        element_of_part=load_arrays.element_of_part,
    )


def _window(compiled: CompiledScenario, start: int) -> EpisodeTables:
    tables = compiled.tables
    shape = (len(tables.active_replicas) - start, *tables.batch_sizes.shape)
    power_w, itl_s = np.zeros((*shape, 3)), np.zeros(shape)
    with compiling_once("episode-tables"):
        fill_power_table(tables.servers, start, tables.n_levels, power_w)
        draws = tables.latency_fits, tables.latency_draws, tables.active_replicas
        fill_itl_table(*draws, start, tables.n_levels, itl_s)
    return EpisodeTables(
        model_power_w=power_w,
        training_w=tables.training_w[:, start:].copy(),
        element_kw=compiled.load_arrays.element_kw[start:].copy(),
        itl_s=itl_s,
        active_replicas=tables.active_replicas[start:].copy(),
        base_w=tables.base_w,
    )


EPISODE_CACHE_MB = 512
"""Memory for compiled episodes in each process (MB); about 1 MB for 1000 seconds of five models."""

_BYTES_PER_MB = 1_000_000


class SameObject:
    """An object as part of a key: itself, whatever it holds. Keeps the object, so that its identity is not reused."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObject) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


class EpisodeCache:
    """Episodes by key; those used longest ago go first. Threads may share it.

    Args:
        capacity_mb: Memory of the episodes together (MB). One that is larger alone is made, but not kept.
    """

    def __init__(self, capacity_mb: float = EPISODE_CACHE_MB) -> None:
        self._known: OrderedDict[Hashable, CompiledEpisode] = OrderedDict()
        self._lock = fork_safe_lock()
        self.n_bytes = 0
        self.resize(capacity_mb)

    def resize(self, capacity_mb: float) -> None:
        """Another capacity (MB); 0 keeps nothing.

        Raises:
            InvalidSettingError: Less than 0.
        """
        require_at_least("capacity_mb", capacity_mb, 0)
        with self._lock:
            self._capacity = int(capacity_mb * _BYTES_PER_MB)
            self._shrink()

    def get(self, key: Hashable, make: Callable[[], CompiledEpisode]) -> CompiledEpisode:
        """The episode of a key, made if it is not there."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        episode = make()
        with self._lock:
            # Another thread may have made the same meanwhile; both are equal.
            if key not in self._known:
                self._known[key] = episode
                self.n_bytes += episode.n_bytes
                self._shrink()
        return episode

    def clear(self) -> None:
        """Forget all episodes."""
        with self._lock:
            self._known.clear()
            self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def _shrink(self) -> None:
        while self.n_bytes > self._capacity:
            _, dropped = self._known.popitem(last=False)
            self.n_bytes -= dropped.n_bytes


EPISODES = EpisodeCache()
"""Those of this process."""
