"""What is used of openg2g beyond its public interface: the one file to read when a new version of it comes out.

The datacenter hands out its server pool, its seed and its training runs, which the compiled engine needs to draw the
same numbers; the grid is started with elements added before its maps of nodes are read, and tells its voltages without
a dictionary. Attributes with a leading underscore are openg2g's own, and no other file names them.
"""

import functools
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from openg2g.datacenter.layout import ServerPool
from openg2g.datacenter.offline import OfflineDatacenter
from openg2g.grid.base import BusVoltages, PhaseVoltages
from openg2g.grid.config import TapPosition
from openg2g.grid.opendss import OpenDSSGrid, dss

from scenario_lib._arrays import Floats

_NOISE_SEED_OFFSET = 12345
"""What openg2g adds to a datacenter's seed for the noise of its servers."""

_LATENCY_SEED_OFFSET = 54321
"""What it adds for latencies."""


class RememberingServerPool(ServerPool):  # type: ignore[misc]
    """openg2g's pool, computing an allocation once per demand: it depends on nothing else.

    The demand only changes inside ramps, while the allocation is asked for every second.
    """

    def allocate(self, gpu_demands: dict[str, int]) -> dict[str, Any]:
        demand = tuple(gpu_demands.items())
        if getattr(self, "_remembered", (None,))[0] != demand:
            self._remembered = (demand, super().allocate(gpu_demands))
        return dict(self._remembered[1])


class ScenarioDatacenter(OfflineDatacenter):  # type: ignore[misc]
    """openg2g's trace-based datacenter with a pool that remembers its allocation; bit for bit the same power."""

    def _build_server_pool(self) -> ServerPool:
        return RememberingServerPool(**vars(super()._build_server_pool()))

    @property
    def server_pool(self) -> ServerPool:
        """The servers, with phase, stagger and amplitude of each."""
        pool: ServerPool = self._pool
        return pool

    @property
    def model_specs(self) -> tuple[Any, ...]:
        """openg2g's specification of each deployed model, in order."""
        return tuple(self._models)

    @property
    def noise_seed(self) -> int:
        """Seed of the noise of the servers' power."""
        return int(self._seed) + _NOISE_SEED_OFFSET

    @property
    def latency_seed(self) -> int:
        """Seed of the latencies."""
        return int(self._seed) + _LATENCY_SEED_OFFSET

    @property
    def base_w_per_phase(self) -> float:
        """Power without any GPU (W)."""
        base_w: float = self._base_W_per_phase
        return base_w

    def training_power_w(self, times_s: Floats) -> Floats:
        """Power of each training run over all phases together (W), shape (runs, T)."""
        runs = list(self._workload.training)
        powers = np.zeros((len(runs), len(times_s)))
        for power, (run, start_s, end_s) in zip(powers, runs, strict=True):
            local = np.mod(times_s - start_s, run._period)
            inside = (times_s >= start_s) & (times_s <= end_s)
            power[inside] = np.interp(local, run._trace_time, run._rescaled_power)[inside] * run.n_gpus
        return powers


def regulator_windings() -> dict[str, tuple[str, int]]:
    """Transformer and winding that each regulator control of the active circuit moves, by its name in lower case."""
    windings: dict[str, tuple[str, int]] = OpenDSSGrid._cache_regcontrol_map()
    return windings


class OpenDSSGridWithHooks(OpenDSSGrid):  # type: ignore[misc]
    """openg2g's grid with places to hook into: elements added after its start, a check after each power flow."""

    def start_from(self, folder: AbstractContextManager[Path]) -> None:
        """Start from the circuit's file in another folder, which exists while the context does."""
        with folder as readable:
            self._case_dir = readable.parent
            super().start()

    def index_nodes(self) -> None:
        """Read the maps of nodes again, after elements were added."""
        self._cache_node_map()
        self._cache_buses_with_phases()
        self._v_index = self._build_v_index()
        self._build_vmag_indices()
        self._build_snapshot_indices()

    @property
    def attached_datacenters(self) -> Iterable[Any]:
        """What is known of each datacenter's loads: `bus`, `connection_type`, `load_names`."""
        attached: dict[Any, Any] = self._dc_attachments
        return attached.values()

    def recorded_voltages(self) -> Floats:
        """Voltages (pu) in `v_index` order as of the last step, before any sensitivity estimate after it."""
        snapshot: VoltageSnapshot = self.state.voltages
        return np.asarray(snapshot.magnitudes[self._v_index_to_vmag])

    def before_start_solve(self) -> None:
        """States that elements begin with, set on the compiled circuit before it is first solved."""

    def after_solve(self) -> None:
        """A check of each power flow."""

    def _init_dss(self) -> None:
        self._begun = False
        super()._init_dss()

    def _solve(self) -> None:
        if not self._begun:
            self._begun = True
            self.before_start_solve()
        super()._solve()
        self.after_solve()

    def _read_current_taps(self) -> TapPosition | None:
        # openg2g's own cannot say that a feeder has no regulator.
        return super()._read_current_taps() if self._reg_map else None

    def _snapshot_bus_voltages(self) -> BusVoltages:
        return VoltageSnapshot(self.all_buses, self._snap_indices, np.array(dss.Circuit.AllBusMagPu()))


class VoltageSnapshot(BusVoltages):  # type: ignore[misc]
    """openg2g's voltages of one step, with its dictionary of buses made only if somebody asks for it.

    Attributes:
        magnitudes: All node voltages (pu), in OpenDSS's order, shape (nodes,).
    """

    def __init__(self, buses: Sequence[str], indices: Any, magnitudes: Floats) -> None:
        object.__setattr__(self, "_buses", buses)
        object.__setattr__(self, "_indices", indices)
        object.__setattr__(self, "magnitudes", magnitudes)

    @functools.cached_property
    def _data(self) -> dict[str, PhaseVoltages]:
        volts = np.append(self.magnitudes, np.nan)[self._indices]
        return {bus: PhaseVoltages(*map(float, row)) for bus, row in zip(self._buses, volts, strict=True)}
