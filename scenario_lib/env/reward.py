"""What an agent is paid for: voltages in range, throughput, latency within deadlines, few switches."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib._values import Bounds, positive, refuse, require_bounds, require_known
from scenario_lib.env.observation import ObservationConfig, VoltageSource, merge_states

SWITCH_MODES = ("magnitude", "binary", "cooldown")
NEVER_CHANGED = 999
"""Steps since the last change of batch, at reset."""

TERMS = ("voltage", "throughput", "latency", "switch", "safe", "ofo_baseline")
"""Reward components as environments report them; the last is inside the first."""

STATISTICS = ("max_under", "max_over", "violation_frac")

Components = dict[str, float]

_LARGEST_WEIGHT = 1e12
_BOUNDS = {
    **dict.fromkeys(
        ("w_voltage", "w_throughput", "w_latency", "w_switch", "w_safe", "reward_clip"), Bounds(0, _LARGEST_WEIGHT)
    ),
    "switch_cooldown_tau": positive(),
    "v_min": Bounds(0, 10),
    "v_max": positive(10),
}


@dataclass(frozen=True, slots=True)
class RewardConfig:
    """Weights of the reward's terms.

    Attributes:
        w_voltage: On the sum over bus-phases of the squared violation (pu^2).
        w_throughput: On the throughput relative to that of the largest batch, summed over models.
        w_latency: On the relative lateness of tokens, summed over models.
        w_switch: On changes of batch.
        w_safe: On the fraction of bus-phases within limits.
        v_min, v_max: Limits (pu).
        reward_clip: The reward is at least minus this; 0 for no limit.
        switch_mode: "magnitude": by the size of the change; "binary": any change; "cooldown": less the longer ago
            the last change is.
        switch_cooldown_tau: Time constant of the cooldown (steps).
    """

    w_voltage: float = 1000.0
    w_throughput: float = 0.01
    w_latency: float = 10.0
    w_switch: float = 0.1
    v_min: float = 0.95
    v_max: float = 1.05
    reward_clip: float = 0.0
    switch_mode: str = "magnitude"
    w_safe: float = 0.0
    switch_cooldown_tau: float = 30.0

    @classmethod
    def of(cls, given: "RewardConfig | Mapping[str, Any] | None") -> "RewardConfig":
        """The weights themselves, those of a mapping by name, or for None the defaults.

        Raises:
            InvalidSettingError: Neither of these, or a value that is not allowed.
            UnknownNameError: The mapping has a name that is no weight.
        """
        if isinstance(given, cls):
            return given
        if given is not None and not isinstance(given, Mapping):
            raise refuse("reward", given, "a RewardConfig, or a mapping from its names")
        weights = given or {}
        require_known("reward", weights, [field.name for field in fields(cls)])
        return cls(**weights)

    def __post_init__(self) -> None:
        if self.switch_mode not in SWITCH_MODES:
            raise refuse("switch_mode", self.switch_mode, f"one of {', '.join(SWITCH_MODES)}")
        require_bounds(self, _BOUNDS)
        if self.v_max <= self.v_min:
            raise refuse("v_max", self.v_max, f"more than v_min ({self.v_min})")


def compute_reward(  # noqa: PLR0913 - the signature is a contract
    grid: VoltageSource,
    datacenter_or_list: Any,
    obs_config: ObservationConfig,
    reward_config: RewardConfig,
    prev_batch: Mapping[str, int],
    curr_batch: Mapping[str, int],
    logistic_models: Any = None,
    steps_since_change: Mapping[str, int] | None = None,
) -> tuple[float, Components, dict[str, float]]:
    """Reward of one step.

    Args:
        prev_batch, curr_batch: Batch sizes before and after the action.
        logistic_models: openg2g's `LogisticModelStore`; None counts throughput as log2 of the batch.
        steps_since_change: Per model, before this step; needed by the cooldown mode.

    Returns:
        The total (clipped), its components (their sum before clipping: voltage, throughput, latency, switch, safe),
        and the voltage statistics (max_under, max_over, violation_frac).
    """
    voltages = grid.voltages_vector()
    labels = obs_config.model_labels
    late = _lateness(datacenter_or_list, obs_config)
    since = steps_since_change or {}
    voltage, stats = _voltage_term(voltages, reward_config)
    components = {
        "voltage": voltage,
        "throughput": reward_config.w_throughput
        * sum(relative_throughput(label, curr_batch[label], obs_config, logistic_models) for label in labels),
        "latency": -reward_config.w_latency * late,
        "switch": -reward_config.w_switch
        * sum(
            _switch(prev_batch[label], curr_batch[label], since.get(label, NEVER_CHANGED), reward_config)
            for label in labels
        ),
        "safe": reward_config.w_safe * (1.0 - stats["violation_frac"]),
    }
    return clip_reward(sum(components.values()), reward_config), components, stats


def voltage_statistics(voltages: NDArray[np.float64], config: RewardConfig) -> dict[str, float]:
    """What `info["voltage_stats"]` says of voltages (pu)."""
    return _voltage_term(voltages, config)[1]


def clip_reward(total: float, reward_config: RewardConfig) -> float:
    """The total, at least minus `reward_clip` if that is set."""
    return max(total, -reward_config.reward_clip) if reward_config.reward_clip > 0 else total


def _voltage_term(voltages: NDArray[np.float64], config: RewardConfig) -> tuple[float, dict[str, float]]:
    under = np.maximum(config.v_min - voltages, 0.0)
    over = np.maximum(voltages - config.v_max, 0.0)
    outside = np.count_nonzero((under > 0) | (over > 0))
    stats = {
        "max_under": float(under.max(initial=0.0)),
        "max_over": float(over.max(initial=0.0)),
        "violation_frac": float(outside / max(voltages.size, 1)),
    }
    return -config.w_voltage * float(np.sum(under**2 + over**2)), stats


def relative_throughput(label: str, batch: int, config: ObservationConfig, logistic_models: Any) -> float:
    """Throughput at a batch size relative to that at the largest: by the fit, or by log2 of the batch without one."""
    largest = max(config.feasible_batch_sizes[label])
    if logistic_models is not None:
        fit = logistic_models.throughput(label)
        return float(fit.eval(batch)) / float(fit.eval(largest))
    return float(np.log2(batch) / np.log2(largest)) if largest > 1 else 0.0


def _lateness(datacenter_or_list: Any, config: ObservationConfig) -> float:
    itl = merge_states(datacenter_or_list).itl_s
    ratios = [
        (itl.get(label, float("nan")) - config.itl_deadlines[label]) / config.itl_deadlines[label]
        for label in config.model_labels
    ]
    return sum(ratio for ratio in ratios if np.isfinite(ratio) and ratio > 0)


def _switch(previous: int, current: int, since_change: int, config: RewardConfig) -> float:
    if previous == current:
        return 0.0
    if config.switch_mode == "binary":
        return 1.0
    if config.switch_mode == "cooldown":
        return float(np.exp(-since_change / config.switch_cooldown_tau))
    return float(abs(np.log2(current) - np.log2(previous)))
