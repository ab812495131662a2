"""What an agent is paid for: voltages in range, throughput, latency within deadlines, few switches.

Formulas are those of the compiled engine, see `step_formulas`; here they are fed from openg2g's objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib._values import Bounds, positive, refuse, require_bounds, require_known
from scenario_lib.env.observation import ObservationConfig, VoltageSource, band_figures, merge_states
from scenario_lib.simulation.compiled.step_formulas import fill_terms, lateness, switching
from scenario_lib.simulation.compiled.step_tables import NEVER_CHANGED, STATISTICS, SWITCH_MODES, TERMS, RewardWeights

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


def weights_of(config: RewardConfig) -> RewardWeights:
    """The weights as numbers."""
    return RewardWeights(
        voltage=float(config.w_voltage),
        throughput=float(config.w_throughput),
        latency=float(config.w_latency),
        switch=float(config.w_switch),
        safe=float(config.w_safe),
        v_min=float(config.v_min),
        v_max=float(config.v_max),
        clip=float(config.reward_clip),
        switch_mode=SWITCH_MODES.index(config.switch_mode),
        cooldown_tau=float(config.switch_cooldown_tau),
    )


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
    since = steps_since_change or {}
    step = RewardedStep(prev_batch, curr_batch, {label: since.get(label, NEVER_CHANGED) for label in curr_batch})
    sources = grid, datacenter_or_list, obs_config
    total, terms, statistics = reward_of(*sources, reward_config, logistic_models, step)
    del terms["ofo_baseline"]
    return total, terms, statistics


class RewardedStep(NamedTuple):
    """What the reward of a step depends on besides what grid and datacenters show.

    Attributes:
        prev_batch, curr_batch: Batch sizes before and after the action.
        since_change: Steps since the last change, per model, before this step.
        ofo_pu2: Squared violations under OFO in the same second (pu^2); 0 if doing better is not paid for.
    """

    prev_batch: Mapping[str, int]
    curr_batch: Mapping[str, int]
    since_change: Mapping[str, int]
    ofo_pu2: float = 0.0


def reward_of(
    grid: VoltageSource,
    datacenter_or_list: Any,
    obs_config: ObservationConfig,
    reward_config: RewardConfig,
    logistic_models: Any,
    step: RewardedStep,
) -> tuple[float, Components, dict[str, float]]:
    """As `compute_reward`, with all of `TERMS` as components."""
    weights, labels, itl_s = weights_of(reward_config), obs_config.model_labels, merge_states(datacenter_or_list).itl_s
    *statistics, squares = band_figures(grid.voltages_vector(), weights.v_min, weights.v_max)
    figures = (
        squares,
        float(sum(relative_throughput(label, step.curr_batch[label], obs_config, logistic_models) for label in labels)),
        float(sum(lateness(itl_s.get(label, float("nan")), obs_config.itl_deadlines[label]) for label in labels)),
        float(sum(_switching(label, step, weights) for label in labels)),
        statistics[2],
    )
    terms = np.zeros(len(TERMS))
    total = fill_terms(weights, figures, step.ofo_pu2, terms)
    return total, dict(zip(TERMS, terms.tolist(), strict=True)), dict(zip(STATISTICS, statistics, strict=True))


def voltage_statistics(voltages: Floats, config: RewardConfig) -> dict[str, float]:
    """What `info["voltage_stats"]` says of voltages (pu)."""
    return dict(zip(STATISTICS, band_figures(voltages, config.v_min, config.v_max), strict=False))


def _switching(label: str, step: RewardedStep, weights: RewardWeights) -> float:
    before, after = step.prev_batch[label], step.curr_batch[label]
    if before == after:
        return 0.0
    change = float(np.log2(after) - np.log2(before))
    return switching(change, step.since_change[label], weights.switch_mode, weights.cooldown_tau)


def relative_throughput(label: str, batch: int, config: ObservationConfig, logistic_models: Any) -> float:
    """Throughput at a batch size relative to that at the largest: by the fit, or by log2 of the batch without one."""
    largest = max(config.feasible_batch_sizes[label])
    if logistic_models is not None:
        fit = logistic_models.throughput(label)
        return float(fit.eval(batch)) / float(fit.eval(largest))
    return float(np.log2(batch) / np.log2(largest)) if largest > 1 else 0.0
