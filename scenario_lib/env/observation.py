"""What an agent sees: voltages, a summary of violations, and some figures per model, as float32 one after another.

`ObservationConfig` says how many of each; `SUMMARY_SLOTS` and `MODEL_SLOTS` what they are, from which lengths, labels
and the documentation follow. Formulas are those of the compiled engine, see `step_formulas`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Bools, Floats, Ints
from scenario_lib.errors import InvalidSettingError
from scenario_lib.simulation.compiled.step_formulas import model_slots, total_power_w, voltage_range


class Slot(NamedTuple):
    """One number of an observation.

    Attributes:
        label: What `observation_labels` calls it.
        meaning, unit, values: As in the table of `BatchSizeEnv`.
        low, high: Bounds of a space that has any; `low` is 0 but for what can fall.
    """

    label: str
    meaning: str
    unit: str
    values: str
    high: float = np.inf
    low: float = 0.0


SUMMARY_SLOTS = (
    Slot(
        "worst undervoltage (pu)",
        "worst undervoltage, `v_min` less voltage, 0 within limits",
        "pu",
        "0 to `v_min`",
        2.0,
    ),
    Slot("worst overvoltage (pu)", "worst overvoltage, voltage less `v_max`, 0 within limits", "pu", "0 up"),
    Slot("fraction of bus-phases in violation", "part of bus-phases outside the limits", "1", "0 to 1", 1.0),
)
"""Once, or once per zone, in the order of `band_statistics`."""

MODEL_SLOTS = (
    Slot(
        "batch (0 smallest, 1 largest, log scale)",
        "batch size on a log scale from the smallest feasible (0) to the largest (1)",
        "1",
        "0 to 1",
        1.0,
    ),
    Slot(
        "latency over deadline",
        "observed inter-token latency over its deadline, 0 if unknown",
        "1",
        "0 to 3, clipped",
        3.0,
    ),
    Slot(
        "replicas over initial replicas",
        "active replicas over those at the experiment's start",
        "1",
        "0 up, can exceed 1",
    ),
    Slot("datacenter power (MW)", "power of the observed sites, all phases together", "MW", "0 up"),
    Slot(
        "change of batch",
        "change of batch size by this step, on the same log scale",
        "1",
        "-1 to 1, clipped",
        1.0,
        -1.0,
    ),
)
"""Once per model, in the order of `model_slots`."""

_FEATURES_PER_MODEL = len(MODEL_SLOTS)


class VoltageSource(Protocol):
    """The part of a grid that is observed."""

    @property
    def v_index(self) -> Sequence[tuple[str, int]]:
        """The (bus, phase) pairs that voltages are of."""
        ...

    def voltages_vector(self) -> NDArray[np.float64]:
        """Voltages (pu) in `v_index` order."""
        ...


@dataclass(frozen=True)
class ObservationConfig:
    """What is observed, of which models.

    Attributes:
        model_labels: Observed models, in order.
        feasible_batch_sizes: Per model.
        itl_deadlines: Per model (s).
        max_replicas: Initial replicas of the base experiment, per model; so the ratio can exceed 1. Missing: 1.
        n_bus_phases: Number of voltage slots M.
        initial_batch_sizes: Per model.
        zone_buses: Only these buses are observed, one by one and in the summary; None for all.
        zone_summary: Zone to buses: the summary is given per zone, in this order.
        bus_phase_groups: Indices into the full voltage vector, per bus: voltages are [min, max] per bus.
        v_min, v_max: Limits of the summary (pu).
    """

    model_labels: tuple[str, ...]
    feasible_batch_sizes: Mapping[str, tuple[int, ...]]
    itl_deadlines: Mapping[str, float]
    max_replicas: Mapping[str, int]
    n_bus_phases: int
    initial_batch_sizes: Mapping[str, int] = field(default_factory=dict)
    zone_buses: tuple[str, ...] | None = None
    zone_summary: Mapping[str, tuple[str, ...]] | None = None
    bus_phase_groups: tuple[tuple[int, ...], ...] | None = None
    v_min: float = 0.95
    v_max: float = 1.05

    def __post_init__(self) -> None:
        groups = self.bus_phase_groups
        if groups is not None and self.n_bus_phases != 2 * len(groups):
            raise InvalidSettingError(
                f"n_bus_phases is {self.n_bus_phases}; expected {2 * len(groups)}, two per bus of bus_phase_groups"
            )

    @property
    def n_models(self) -> int:
        return len(self.model_labels)

    @property
    def n_zone_summary_slots(self) -> int:
        """Numbers of the summary, which is given once or per zone."""
        return len(SUMMARY_SLOTS) * (len(self.zone_summary) if self.zone_summary else 1)

    @property
    def obs_dim(self) -> int:
        """Length of an observation."""
        return self.n_bus_phases + self.n_zone_summary_slots + _FEATURES_PER_MODEL * self.n_models

    def get_initial_batch(self, label: str) -> int:
        """Initial batch size of a model; the middle feasible one if none is given."""
        feasible = self.feasible_batch_sizes[label]
        return int(self.initial_batch_sizes.get(label, feasible[len(feasible) // 2]))

    @classmethod
    def from_model_specs(  # noqa: PLR0913 - the signature is a contract
        cls,
        specs: Sequence[Any],
        replica_counts: Mapping[str, int],
        n_bus_phases: int,
        initial_batch_sizes: Mapping[str, int] | None = None,
        zone_buses: Sequence[str] | None = None,
        v_min: float = 0.95,
        v_max: float = 1.05,
    ) -> "ObservationConfig":
        """Observation of one site's models."""
        labels = tuple(_label(spec) for spec in specs)
        return cls(
            model_labels=labels,
            feasible_batch_sizes={_label(spec): tuple(spec.feasible_batch_sizes) for spec in specs},
            itl_deadlines={_label(spec): float(spec.itl_deadline_s) for spec in specs},
            max_replicas={label: int(replica_counts.get(label, 1)) for label in labels},
            n_bus_phases=n_bus_phases,
            initial_batch_sizes=dict(initial_batch_sizes or {}),
            zone_buses=None if zone_buses is None else tuple(zone_buses),
            v_min=v_min,
            v_max=v_max,
        )

    @classmethod
    def from_multi_site(  # noqa: PLR0913 - the signature is a contract
        cls,
        site_specs: Mapping[str, Sequence[Any]],
        site_replica_counts: Mapping[str, Mapping[str, int]],
        n_bus_phases: int,
        initial_batch_sizes: Mapping[str, int] | None = None,
        zone_summary: Mapping[str, Sequence[str]] | None = None,
        bus_phase_groups: Sequence[Sequence[int]] | None = None,
        v_min: float = 0.95,
        v_max: float = 1.05,
    ) -> "ObservationConfig":
        """Observation of all sites' models, in site order.

        Raises:
            InvalidSettingError: One label stands at two sites; their states would merge.
        """
        specs = [spec for site in site_specs for spec in site_specs[site]]
        labels = [_label(spec) for spec in specs]
        if len(set(labels)) != len(labels):
            raise InvalidSettingError(f"model labels {labels}: one stands at two sites; states merge by label")
        counts = {label: count for site in site_replica_counts.values() for label, count in site.items()}
        single = cls.from_model_specs(specs, counts, n_bus_phases, initial_batch_sizes, None, v_min, v_max)
        zones = None if zone_summary is None else {zone: tuple(buses) for zone, buses in zone_summary.items()}
        groups = None if bus_phase_groups is None else tuple(tuple(group) for group in bus_phase_groups)
        return cls(**{**vars(single), "zone_summary": zones, "bus_phase_groups": groups})


def observation_space(config: ObservationConfig, extensions: Any = None) -> gym.spaces.Space[Any]:
    """The space of observations: that of `Extensions` which have one, else one without bounds, as is the contract."""
    own = None if extensions is None else extensions.space
    return own if own is not None else gym.spaces.Box(-np.inf, np.inf, (config.obs_dim,), np.float32)


def _label(spec: Any) -> str:
    return str(spec.label if hasattr(spec, "label") else spec.model_label)


def compute_zone_mask(v_index: Sequence[tuple[str, int]], zone_buses: Sequence[str]) -> Bools:
    """Which bus-phases are in a zone, whatever the case of names, shape (N,).

    Buses of the zone that the feeder lacks, and buses of the feeder in no zone, do not count.
    """
    zone = {bus.lower() for bus in zone_buses}
    return np.array([bus.lower() in zone for bus, _ in v_index], dtype=bool)


def zone_masks_of(
    config: "ObservationConfig", v_index: Sequence[tuple[str, int]]
) -> tuple[Bools | None, list[Bools] | None]:
    """Masks of `zone_buses` and of `zone_summary`, as `build_observation` takes them; None where there are none."""
    own = None if config.zone_buses is None else compute_zone_mask(v_index, config.zone_buses)
    return own, [compute_zone_mask(v_index, buses) for buses in (config.zone_summary or {}).values()] or None


def compute_bus_phase_groups(v_index: Sequence[tuple[str, int]]) -> tuple[tuple[int, ...], ...]:
    """Per bus, in order of appearance, the positions of its phases in the voltage vector."""
    groups: dict[str, list[int]] = {}
    for position, (bus, _) in enumerate(v_index):
        groups.setdefault(bus, []).append(position)
    return tuple(tuple(group) for group in groups.values())


def build_observation(
    grid: VoltageSource,
    datacenter_or_list: Any,
    obs_config: ObservationConfig,
    prev_batch: Mapping[str, int],
    zone_mask: Bools | None = None,
    zone_masks: Sequence[Bools] | None = None,
) -> NDArray[np.float32]:
    """The observation after a step, shape (obs_dim,), float32.

    Args:
        grid: Source of voltages.
        datacenter_or_list: The observed datacenter, or all of them; each has a `state`.
        prev_batch: Batch sizes before the step.
        zone_mask, zone_masks: Precomputed masks of `zone_buses` and of `zone_summary`; computed here if None.

    Raises:
        InvalidSettingError: The grid has another number of bus-phases than the configuration.
    """
    voltages = grid.voltages_vector()
    if zone_mask is None and obs_config.zone_buses is not None:
        zone_mask = compute_zone_mask(grid.v_index, obs_config.zone_buses)
    if zone_masks is None and obs_config.zone_summary:
        zone_masks = [compute_zone_mask(grid.v_index, buses) for buses in obs_config.zone_summary.values()]
    local = voltages if zone_mask is None else voltages[zone_mask]
    parts = [_voltage_slots(voltages, local, obs_config)]
    for zone in [voltages[mask] for mask in zone_masks] if zone_masks else [local]:
        parts.append(violation_summary(zone, obs_config.v_min, obs_config.v_max))
    parts.append(_model_features(datacenter_or_list, obs_config, prev_batch))
    return np.concatenate(parts).astype(np.float32)


def violation_summary(voltages: Floats, v_min: float, v_max: float) -> Floats:
    """[worst undervoltage, worst overvoltage, fraction in violation], zeros for no voltages."""
    return np.array(band_figures(voltages, v_min, v_max)[: len(SUMMARY_SLOTS)])


def band_figures(voltages: Floats, v_min: float, v_max: float) -> tuple[float, float, float, float]:
    """As `band_statistics`, in machine code: hundreds of voltages are too many for Python."""
    # Imported here, as loading the kernels takes a while that naming settings need not pay.
    from scenario_lib.simulation.compiled.step_kernels import band_statistics

    found: tuple[float, float, float, float] = band_statistics(
        np.ascontiguousarray(voltages, float), float(v_min), float(v_max)
    )
    return found


def summarised_zones(config: ObservationConfig, bus_phases: Sequence[tuple[str, int]]) -> list[Ints]:
    """Positions in the voltage vector of each group of bus-phases that a summary is given of."""
    zones = list((config.zone_summary or {}).values())
    if not zones and config.zone_buses is None:
        return [np.arange(len(bus_phases))]
    return [np.flatnonzero(compute_zone_mask(bus_phases, buses)) for buses in zones or [config.zone_buses or ()]]


def shown_positions(config: ObservationConfig, v_index: Sequence[tuple[str, int]]) -> NDArray[np.int64]:
    """Positions in the voltage vector of the bus-phases that are observed one by one.

    Raises:
        InvalidSettingError: The grid has another number of them than the configuration.
    """
    if config.n_bus_phases == 0 or config.bus_phase_groups is not None:
        return np.zeros(0, np.int64)
    everywhere = config.zone_buses is None
    mask = np.ones(len(v_index), bool) if everywhere else compute_zone_mask(v_index, config.zone_buses or ())
    _require_count(config, int(mask.sum()))
    return np.flatnonzero(mask)


def shown_groups(config: ObservationConfig, n_bus_phases: int) -> list[NDArray[np.int64]]:
    """Positions in the voltage vector of each group that is observed as [lowest, highest].

    Raises:
        InvalidSettingError: A position is beyond the grid's bus-phases.
    """
    if config.n_bus_phases == 0:
        return []
    groups = [np.array(group, np.int64) for group in config.bus_phase_groups or ()]
    if groups and max(group.max() for group in groups) >= n_bus_phases:
        raise InvalidSettingError(f"bus_phase_groups: an index is beyond the grid's {n_bus_phases} bus-phases")
    return groups


def _require_count(config: ObservationConfig, n_bus_phases: int) -> None:
    if n_bus_phases != config.n_bus_phases:
        raise InvalidSettingError(f"n_bus_phases is {config.n_bus_phases}; the grid has {n_bus_phases} bus-phases")


def _voltage_slots(
    voltages: NDArray[np.float64], local: NDArray[np.float64], config: ObservationConfig
) -> NDArray[np.float64]:
    if config.n_bus_phases == 0:
        return np.zeros(0)
    if config.bus_phase_groups is None:
        _require_count(config, len(local))
        return local
    groups = shown_groups(config, len(voltages))
    return np.array([voltage_range(voltages, group) for group in groups], float).ravel()


def log_scale(feasible: Sequence[int]) -> tuple[float, float]:
    """Where the log2 scale of a model's batch sizes begins, and its length: 1 for a single size."""
    low, high = np.log2(min(feasible)), np.log2(max(feasible))
    return float(low), float(high - low) if high > low else 1.0


def _model_features(datacenter_or_list: Any, config: ObservationConfig, prev_batch: Mapping[str, int]) -> Floats:
    observed = merge_states(datacenter_or_list)
    rows = []
    for label in config.model_labels:
        low, span = log_scale(config.feasible_batch_sizes[label])
        batch = observed.batch_sizes[label]
        rows.append(
            model_slots(
                float((np.log2(batch) - low) / span),
                float((np.log2(batch) - np.log2(prev_batch.get(label, batch))) / span),
                float(observed.itl_s.get(label, float("nan")) / config.itl_deadlines[label]),
                observed.active_replicas.get(label, 0) / max(config.max_replicas.get(label, 1), 1),
                float(observed.power_w),
            )
        )
    return np.array(rows, float).ravel()


@dataclass(frozen=True, slots=True)
class ObservedState:
    """States of the observed datacenters, merged by model label; power over all of them and all phases (W)."""

    batch_sizes: dict[str, int]
    active_replicas: dict[str, int]
    itl_s: dict[str, float]
    power_w: float


def merge_states(datacenter_or_list: Any) -> ObservedState:
    """One view of one or several datacenters."""
    several = isinstance(datacenter_or_list, list | tuple)
    states = [datacenter.state for datacenter in (datacenter_or_list if several else [datacenter_or_list])]
    per_phase_w = np.array([[state.power_w.a, state.power_w.b, state.power_w.c] for state in states], float)
    return ObservedState(
        batch_sizes={label: size for state in states for label, size in state.batch_size_by_model.items()},
        active_replicas={label: count for state in states for label, count in state.active_replicas_by_model.items()},
        itl_s={label: itl for state in states for label, itl in state.observed_itl_s_by_model.items()},
        power_w=total_power_w(per_phase_w, np.arange(len(states))),
    )


def observation_labels(config: ObservationConfig, bus_phases: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """One name per slot of an observation, in its order.

    Args:
        config: The layout.
        bus_phases: The grid's (bus, phase) pairs.
    """
    return (*_voltage_labels(config, bus_phases), *_summary_labels(config), *_model_labels(config))


def _voltage_labels(config: ObservationConfig, bus_phases: tuple[tuple[str, int], ...]) -> list[str]:
    if config.n_bus_phases == 0:
        return []
    if config.bus_phase_groups is not None:
        buses = [bus_phases[group[0]][0] for group in config.bus_phase_groups]
        return [f"{edge} voltage at bus {bus} (pu)" for bus in buses for edge in ("lowest", "highest")]
    zone = None if config.zone_buses is None else {bus.lower() for bus in config.zone_buses}
    kept = [(bus, phase) for bus, phase in bus_phases if zone is None or bus.lower() in zone]
    return bus_phase_labels(kept)


def bus_phase_labels(bus_phases: Iterable[tuple[str, int]]) -> list[str]:
    """Names of voltages that are shown one by one."""
    return [f"voltage at bus {bus}, phase {'ABC'[phase - 1]} (pu)" for bus, phase in bus_phases]


def zone_labels(zones: Iterable[str]) -> list[str]:
    """Names of the summaries of some zones."""
    return [f"{slot.label}, zone {zone}" for zone in zones for slot in SUMMARY_SLOTS]


def _summary_labels(config: ObservationConfig) -> list[str]:
    return zone_labels(config.zone_summary) if config.zone_summary else [slot.label for slot in SUMMARY_SLOTS]


def _model_labels(config: ObservationConfig) -> list[str]:
    return [f"{slot.label}, {label}" for label in config.model_labels for slot in MODEL_SLOTS]
