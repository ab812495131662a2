"""Observation, action and reward of an environment as the arrays that the compiled engine plays with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats, Ints
from scenario_lib._values import few
from scenario_lib.env.observation import ObservationConfig, compute_zone_mask, shown_groups, shown_positions
from scenario_lib.env.reward import RewardConfig, relative_throughput
from scenario_lib.errors import UnknownNameError
from scenario_lib.simulation.compiled.episode import SiteArrays
from scenario_lib.simulation.compiled.step_tables import BINARY, COOLDOWN, MAGNITUDE, ObservationLayout, RewardWeights

_SWITCH_MODES = {"magnitude": MAGNITUDE, "binary": BINARY, "cooldown": COOLDOWN}


def weights_of(config: RewardConfig) -> RewardWeights:
    """The reward's weights as numbers."""
    return RewardWeights(
        voltage=float(config.w_voltage),
        throughput=float(config.w_throughput),
        latency=float(config.w_latency),
        switch=float(config.w_switch),
        safe=float(config.w_safe),
        v_min=float(config.v_min),
        v_max=float(config.v_max),
        clip=float(config.reward_clip),
        switch_mode=_SWITCH_MODES[config.switch_mode],
        cooldown_tau=float(config.switch_cooldown_tau),
    )


def layout_of(
    config: ObservationConfig,
    deployment: SiteArrays,
    bus_phases: Sequence[tuple[str, int]],
    sites: Sequence[str],
    logistic_models: Any,
) -> ObservationLayout:
    """Where each slot comes from, and what each batch size means.

    Args:
        sites: Observed sites, in order.
        logistic_models: openg2g's fits, or None; see `compute_reward`.

    Raises:
        UnknownNameError: A model is at none of the sites.
        InvalidSettingError: The feeder has another number of bus-phases than the configuration.
    """
    models = _deployed(config, deployment, sites)
    groups, zones = shown_groups(config, len(bus_phases)), _zones(config, bus_phases)
    batch_size = deployment.batch_sizes[models]
    feasible = [sorted(config.feasible_batch_sizes[label]) for label in config.model_labels]
    low, high = np.log2([sizes[0] for sizes in feasible]), np.log2([sizes[-1] for sizes in feasible])
    span = np.where(high > low, high - low, 1.0)
    return ObservationLayout(
        shown=shown_positions(config, bus_phases),
        group_start=_starts(groups),
        group_member=_joined(groups),
        zone_start=_starts(zones),
        zone_member=_joined(zones),
        v_min=float(config.v_min),
        v_max=float(config.v_max),
        sites=np.array([deployment.site_names.index(site) for site in sites], np.int64),
        model=models,
        n_feasible=np.array([len(sizes) for sizes in feasible], np.int64),
        feasible_level=_feasible_levels(config, feasible, batch_size),
        position=_positions(feasible, batch_size),
        batch_size=batch_size,
        log2_batch=np.log2(batch_size),
        batch_feature=(np.log2(batch_size) - low[:, None]) / span[:, None],
        span=span,
        deadline_s=np.array([config.itl_deadlines[label] for label in config.model_labels], float),
        max_replicas=np.array([max(config.max_replicas.get(label, 1), 1) for label in config.model_labels], float),
        throughput=_throughput(config, batch_size, logistic_models),
    )


def _deployed(config: ObservationConfig, deployment: SiteArrays, sites: Sequence[str]) -> Ints:
    """Position of each observed model among the deployed ones."""
    place = {label: m for m, (site, label) in enumerate(deployment.model_labels) if site in sites}
    for label in config.model_labels:
        if label not in place:
            raise UnknownNameError(f"model_labels: {label!r} is not at {few(sites)}; expected some of {few(place)}")
    return np.array([place[label] for label in config.model_labels], np.int64)


def _zones(config: ObservationConfig, bus_phases: Sequence[tuple[str, int]]) -> list[Ints]:
    if config.zone_summary:
        return [np.flatnonzero(compute_zone_mask(bus_phases, buses)) for buses in config.zone_summary.values()]
    if config.zone_buses is not None:
        return [np.flatnonzero(compute_zone_mask(bus_phases, config.zone_buses))]
    return [np.arange(len(bus_phases))]


def _feasible_levels(config: ObservationConfig, feasible: list[list[int]], batch_size: Ints) -> Ints:
    levels = np.zeros((len(feasible), max(map(len, feasible))), np.int64)
    for k, (sizes, row) in enumerate(zip(feasible, batch_size.tolist(), strict=True)):
        for position, size in enumerate(sizes):
            if size not in row:
                raise UnknownNameError(
                    f"feasible_batch_sizes: {size} of {config.model_labels[k]}; expected among {sorted(set(row))}"
                )
            levels[k, position] = row.index(size)
    return levels


def _positions(feasible: list[list[int]], batch_size: Ints) -> Ints:
    """Place of every level's batch size among the feasible ones; the middle for one that is not."""
    return np.array(
        [
            [sizes.index(size) if size in sizes else len(sizes) // 2 for size in row]
            for sizes, row in zip(feasible, batch_size.tolist(), strict=True)
        ],
        np.int64,
    )


def _throughput(config: ObservationConfig, batch_size: Ints, logistic_models: Any) -> Floats:
    return np.array(
        [
            [relative_throughput(label, size, config, logistic_models) for size in row]
            for label, row in zip(config.model_labels, batch_size.tolist(), strict=True)
        ]
    )


def _starts(groups: Sequence[NDArray[Any]]) -> Ints:
    return np.cumsum([0, *(len(group) for group in groups)]).astype(np.int64)


def _joined(groups: Sequence[NDArray[Any]]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int64)
