"""What the kernels of a step read and fill in: how actions, observations and rewards are laid out, as plain arrays.

Positions are indices into the recorded bus-phases; K is the number of observed models, which need not be all M.
"""

from typing import NamedTuple

import numpy as np

from scenario_lib._arrays import Bools, Floats, Ints, Singles

TERMS = ("voltage", "throughput", "latency", "switch", "safe", "ofo_baseline")
"""Of the reward; the last, a bonus for doing better than OFO, is inside the first already."""

STATISTICS = ("max_under", "max_over", "violation_frac")
"""Worst undervoltage, worst overvoltage (pu), fraction of bus-phases in violation."""

NEVER_CHANGED = 999
"""Steps since the last change of batch, when an episode begins."""


class ObservationLayout(NamedTuple):
    """What is observed of which models, and how actions move them.

    Attributes:
        shown: Positions that are observed one by one.
        group_start, group_member: Groups of positions that are observed as [lowest, highest], one after another.
        zone_start, zone_member: Groups of positions that a summary is given of.
        v_min, v_max: Limits of the summaries (pu).
        sites: Sites whose power is observed.
        model: Deployed model of each observed one, shape (K,).
        n_feasible, feasible_level: Feasible batch sizes as engine levels, rising, shapes (K,) and (K, F).
        position: Place of each engine level among the feasible ones, the middle if it is none, shape (K, L).
        batch_size, log2_batch, batch_feature: Of each engine level, shape (K, L).
        span: Of the log scale, shape (K,).
        deadline_s, max_replicas, throughput: Shapes (K,), (K,) and, per engine level, (K, L).
    """

    shown: Ints
    group_start: Ints
    group_member: Ints
    zone_start: Ints
    zone_member: Ints
    v_min: float
    v_max: float
    sites: Ints
    model: Ints
    n_feasible: Ints
    feasible_level: Ints
    position: Ints
    batch_size: Ints
    log2_batch: Floats
    batch_feature: Floats
    span: Floats
    deadline_s: Floats
    max_replicas: Floats
    throughput: Floats


_MAGNITUDE, BINARY, COOLDOWN = 0, 1, 2
SWITCH_MODES = ("magnitude", "binary", "cooldown")
"""Names of these constants, in their order."""


class RewardWeights(NamedTuple):
    """`RewardConfig` as numbers; `switch_mode` is one of the constants above, `clip` 0 for none."""

    voltage: float
    throughput: float
    latency: float
    switch: float
    safe: float
    v_min: float
    v_max: float
    clip: float
    switch_mode: int
    cooldown_tau: float


_NONE, _NOTHING = np.zeros(0, np.int64), np.zeros(0)
_NO_LEVELS, _NO_FIGURES = np.zeros((0, 0), np.int64), np.zeros((0, 0))
_NO_GROUPS = np.zeros(1, np.int64)

NO_LAYOUT = ObservationLayout(
    *(_NONE, _NO_GROUPS, _NONE, _NO_GROUPS, _NONE, 0.0, 0.0, _NONE, _NONE, _NONE),
    *(_NO_LEVELS, _NO_LEVELS, _NO_LEVELS, _NO_FIGURES, _NO_FIGURES),
    *(_NOTHING, _NOTHING, _NOTHING, _NO_FIGURES),
)
"""Nothing is observed."""

NO_WEIGHTS = RewardWeights(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, _MAGNITUDE, 0.0)
"""Nothing is paid for."""


class StepTables(NamedTuple):
    """`EpisodeTables` of N episodes, one more axis of N in front, and what is the same for all of them."""

    model_power_w: Floats
    training_w: Floats
    element_kw: Floats
    itl_s: Floats
    active_replicas: Ints
    base_w: Floats
    site_of_model: Ints
    datacenter_tan: float
    element_tan: Floats
    element_of_part: Ints


class Clock(NamedTuple):
    """How time goes: `interval_s` seconds a step; see `Tolerance` for the others."""

    interval_s: int
    change_pu: float
    max_iterations: int


class EpisodeProgress(NamedTuple):
    """Where N episodes stand.

    Attributes:
        active: Whether an episode takes part in the next step, shape (N,).
        moves: What the agent asks of each observed model, in feasible sizes up or down, shape (N, K).
        first_second: Of each episode's tables, shape (N,).
        second: That the next power flow solves; where one failed, the failed one. Shape (N,).
        step: Steps taken, shape (N,).
        levels: Batch level of every deployed model, shape (N, M).
        levels_before: Of the observed models before the last step, shape (N, K).
        since_change: Steps since the last change, shape (N, K).
        ofo_penalty: Squared violations under OFO (pu^2) by second of the window, shape (N, longest), or (N, 0).
    """

    active: Bools
    moves: Ints
    first_second: Ints
    second: Ints
    step: Ints
    levels: Ints
    levels_before: Ints
    since_change: Ints
    ofo_penalty: Floats


class StepArrays(NamedTuple):
    """What a step leaves behind; rows of episodes that diverged or took no part keep all but the reward.

    Attributes:
        converged: Shape (N,).
        voltages_pu, power_w, itl_s: Shapes (N, bus-phases), (N, S, 3) and (N, M).
        observation: Shape (N, slots).
        reward: 0 for an episode that diverged or took no part, shape (N,).
        terms, statistics: Columns as in `TERMS` and `STATISTICS`, N rows.
        batch_size: Of the observed models, shape (N, K).
    """

    converged: Bools
    voltages_pu: Floats
    power_w: Floats
    itl_s: Floats
    observation: Singles
    reward: Floats
    terms: Floats
    statistics: Floats
    batch_size: Ints


def empty_progress(n_episodes: int, n_models: int, n_observed: int) -> EpisodeProgress:
    """N episodes, none begun."""
    return EpisodeProgress(
        active=np.zeros(n_episodes, bool),
        moves=np.zeros((n_episodes, n_observed), np.int64),
        first_second=np.zeros(n_episodes, np.int64),
        second=np.zeros(n_episodes, np.int64),
        step=np.zeros(n_episodes, np.int64),
        levels=np.zeros((n_episodes, n_models), np.int64),
        levels_before=np.zeros((n_episodes, n_observed), np.int64),
        since_change=np.zeros((n_episodes, n_observed), np.int64),
        ofo_penalty=np.zeros((n_episodes, 0)),
    )


def _observation_length(layout: ObservationLayout) -> int:
    """Length of an observation."""
    groups, zones = len(layout.group_start) - 1, len(layout.zone_start) - 1
    return len(layout.shown) + 2 * groups + 3 * zones + 5 * len(layout.model)


def empty_step_arrays(n_episodes: int, layout: ObservationLayout, n_bus_phases: int, site_of_model: Ints) -> StepArrays:
    """Room for what steps leave behind."""
    n_sites, n_observed = int(site_of_model.max()) + 1, len(layout.model)
    return StepArrays(
        converged=np.ones(n_episodes, bool),
        voltages_pu=np.zeros((n_episodes, n_bus_phases)),
        power_w=np.zeros((n_episodes, n_sites, 3)),
        itl_s=np.zeros((n_episodes, len(site_of_model))),
        observation=np.zeros((n_episodes, _observation_length(layout)), np.float32),
        reward=np.zeros(n_episodes),
        terms=np.zeros((n_episodes, len(TERMS))),
        statistics=np.zeros((n_episodes, len(STATISTICS))),
        batch_size=np.zeros((n_episodes, n_observed), np.int64),
    )
