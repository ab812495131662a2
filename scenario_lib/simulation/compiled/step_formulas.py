"""Observation, action and reward of an environment, formula by formula; the only place where they are written down.

Plain functions: the kernels that play whole steps compile them, and `build_observation`, `compute_reward` and
`decode_action`, which work on openg2g's objects, call them as they are. Both only look up where a figure is found and
which slot it goes to. No formula calls another, so that each can be compiled by itself.
"""

import numpy as np

from scenario_lib._arrays import Floats, Ints
from scenario_lib.simulation.compiled.step_tables import BINARY, COOLDOWN, RewardWeights

_LARGEST_LATENCY_RATIO = 3.0
_W_PER_MW = 1e6


def moved(position: int, move: int, n_feasible: int) -> int:
    """Place among a model's `n_feasible` batch sizes after a move of so many sizes, at most to the ends."""
    return max(min(position + move, n_feasible - 1), 0)


def band_statistics(voltages_pu: Floats, v_min: float, v_max: float) -> tuple[float, float, float, float]:
    """Worst undervoltage and overvoltage (pu), fraction outside, sum of squared violations (pu^2); zeros for none.

    Args:
        voltages_pu: Shape (B,).
        v_min, v_max: Limits (pu).
    """
    under, over, outside, squares = 0.0, 0.0, 0, 0.0
    for voltage in voltages_pu:
        below, above = max(v_min - voltage, 0.0), max(voltage - v_max, 0.0)
        under, over = max(under, below), max(over, above)
        outside += below > 0.0 or above > 0.0
        squares += below * below + above * above
    return under, over, outside / max(voltages_pu.size, 1), squares


def voltage_range(voltages_pu: Floats, members: Ints) -> tuple[float, float]:
    """Lowest and highest voltage (pu) of some bus-phases.

    Args:
        voltages_pu: Shape (B,).
        members: Positions in it.
    """
    lowest, highest = np.inf, -np.inf
    for member in members:
        lowest, highest = min(lowest, voltages_pu[member]), max(highest, voltages_pu[member])
    return lowest, highest


def total_power_w(power_w: Floats, sites: Ints) -> float:
    """Power (W) of some sites, all phases together.

    Args:
        power_w: Shape (S, 3).
        sites: Rows of it.
    """
    total = 0.0
    for site in sites:
        total += power_w[site, 0] + power_w[site, 1] + power_w[site, 2]
    return total


def model_slots(
    batch: float, change: float, latency: float, replicas: float, power_w: float
) -> tuple[float, float, float, float, float]:
    """What is observed of one model, in the order of the observation's slots.

    Args:
        batch: Batch size on a log scale from 0, the smallest feasible, to 1, the largest.
        change: Of `batch` by this step.
        latency: Over its deadline; NaN if unknown.
        replicas: Active ones over those at the experiment's start.
        power_w: Of the observed sites (W).
    """
    ratio = min(max(latency, 0.0), _LARGEST_LATENCY_RATIO) if np.isfinite(latency) else 0.0
    return batch, ratio, replicas, power_w / _W_PER_MW, min(max(change, -1.0), 1.0)


def lateness(itl_s: float, deadline_s: float) -> float:
    """By what part of its deadline a latency is too long; 0 if it is not, or is unknown."""
    late = (itl_s - deadline_s) / deadline_s
    return late if np.isfinite(late) and late > 0.0 else 0.0


def switching(log2_change: float, since_change: int, switch_mode: int, cooldown_tau: float) -> float:
    """What counts of a changed batch size.

    Args:
        log2_change: By how much, in doublings.
        since_change: Steps since the model's change before this one.
        switch_mode: One of the constants beside `RewardWeights`.
        cooldown_tau: Time constant of the cooldown (steps).
    """
    if switch_mode == BINARY:
        return 1.0
    if switch_mode == COOLDOWN:
        return float(np.exp(-since_change / cooldown_tau))
    return abs(log2_change)


def fill_terms(
    weights: RewardWeights, figures: tuple[float, float, float, float, float], ofo_pu2: float, terms: Floats
) -> float:
    """Fill in the terms of the reward and return their sum, which is at least minus the clip.

    Args:
        weights: Of the terms.
        figures: Squared violations (pu^2), throughput, lateness and switching, each summed, and the fraction of
            bus-phases outside.
        ofo_pu2: Squared violations under OFO in the same second (pu^2); 0 without that baseline.
        terms: One slot for each of `TERMS`.
    """
    squares, throughput, late, switched, outside = figures
    terms[0] = -weights.voltage * squares
    terms[1] = weights.throughput * throughput
    terms[2] = -weights.latency * late
    terms[3] = -weights.switch * switched
    terms[4] = weights.safe * (1.0 - outside)
    total: float = terms[0] + terms[1] + terms[2] + terms[3] + terms[4]
    terms[5] = weights.voltage * ofo_pu2
    terms[0] += terms[5]
    total += terms[5]
    return max(total, -weights.clip) if weights.clip > 0.0 else total
