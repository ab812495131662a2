"""What stepping many scenarios takes: powers looked up in tables, and one scenario's part of stacked arrays.

One step of an environment as machine code: act, simulate, observe, reward. One episode, or many side by side.

All arrays travel as one object, a `Game`, since handing over a hundred arrays costs more than the power flow. Threads
take whole episodes, so that their number changes no bit.
"""

from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from scenario_lib._arrays import Floats, Ints
from scenario_lib.simulation.compiled.jit import inlined_kernel, kernel
from scenario_lib.simulation.compiled.power_flow import GridState, LoadArrays, Tolerance, record_voltages, solve_second
from scenario_lib.simulation.compiled.servers import LatencyDraws, LatencyFits, Servers, model_power_w, observe_itl
from scenario_lib.simulation.compiled.step_tables import BINARY, COOLDOWN


@kernel
def fill_power_table(servers: Servers, first_second: int, n_levels: Ints, out_w: Floats) -> None:
    """Power of every model at every level: out_w has shape (T, M, L, 3). Unused levels stay as they are."""
    for t in range(out_w.shape[0]):
        for model in range(out_w.shape[1]):
            for level in range(n_levels[model]):
                model_power_w(servers, first_second + t, model, level, out_w[t, model, level])


@inlined_kernel
def state_of(states: GridState, i: int) -> GridState:
    """State of one scenario, sharing memory with the stack."""
    return GridState(
        states.v[i],
        states.magnitude_v[i],
        states.power_va[i],
        states.admittance[i],
        states.lower[i],
        states.inverse_diagonal[i],
        states.forward[i],
        states.backward[i],
    )


@inlined_kernel
def looked_up_powers(tables, i, t, levels, out_w):  # type: ignore[no-untyped-def]
    """As `loops.site_powers`, with every model's power looked up."""
    power_w, site_of_model = tables.model_power_w[i, t], tables.site_of_model
    out_w[:] = 0.0
    for model in range(levels.size):
        for phase in range(3):
            out_w[site_of_model[model], phase] += power_w[model, levels[model], phase]
    for site in range(out_w.shape[0]):
        for phase in range(3):
            out_w[site, phase] = tables.base_w[i, site] + out_w[site, phase]
    for run in range(tables.training_w.shape[1]):
        for phase in range(3):
            out_w[0, phase] += tables.training_w[i, run, t]


_PARTS = (
    "network",
    "states",
    "tables",
    "clock",
    "layout",
    "weights",
    "progress",
    "outcome",
)
_LARGEST_LATENCY_RATIO = 3.0
_W_PER_MW = 1e6


@structref.register
class _EpisodeStateType(types.StructRef):  # type: ignore[misc]
    """How machine code sees a `Game`."""


class EpisodeState(structref.StructRefProxy):  # type: ignore[misc]
    """Everything that the kernels below read and fill in; it keeps the arrays alive.

    Attributes:
        network: The circuit.
        states: A `GridState` of stacked arrays.
        tables: `StepTables` of the episodes, each from its own first second on.
        clock, layout, weights, progress, outcome: See `play_tables`.
    """


structref.define_proxy(EpisodeState, _EpisodeStateType, list(_PARTS))


@kernel
def assemble(network, states, tables, clock, layout, weights, progress, outcome):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """A `Game` of these parts."""
    return EpisodeState(network, states, tables, clock, layout, weights, progress, outcome)


@kernel
def fill_itl_table(
    fits: LatencyFits, draws: LatencyDraws, replicas: Ints, first_second: int, n_levels: Ints, out_s: Floats
) -> None:
    """Observed latency of every model at every level (s): out_s has shape (T, M, L), unused levels as the largest."""
    row_s = np.empty(n_levels.size)
    for t in range(out_s.shape[0]):
        second = first_second + t
        for level in range(out_s.shape[2]):
            observe_itl(fits, draws, second, np.minimum(level, n_levels - 1), replicas[second], row_s)
            out_s[t, :, level] = row_s


@kernel
def begin(game: Any, i: int) -> bool:
    """Put episode i to the start of its window and simulate one interval at its initial batch sizes.

    `states` hold its checkpoint and `progress.levels` its batch levels. False if the power flow diverges.
    """
    progress, outcome, layout = game.progress, game.outcome, game.layout
    for k in range(layout.model.size):
        progress.levels_before[i, k] = progress.levels[i, layout.model[k]]
    if not _advance(game.network, game.states, game.tables, game.clock, progress, outcome, i):
        return False
    _observe(layout, game.tables, progress, outcome, i)
    return True


@kernel
def advance(game: Any, start: int, stop: int) -> None:
    """Simulate one interval of the active ones among episodes start to stop - 1 at the batch levels that `progress`
    holds; nothing is observed or rewarded."""
    network, states, tables, clock = game.network, game.states, game.tables, game.clock
    progress, outcome = game.progress, game.outcome
    for i in range(start, stop):
        if progress.active[i]:
            _advance(network, states, tables, clock, progress, outcome, i)


@kernel
def play(game: Any, start: int, stop: int) -> None:
    """One step of the active ones among episodes start to stop - 1, one after another; holds no lock of Python's."""
    network, states, tables, clock = game.network, game.states, game.tables, game.clock
    layout, weights, progress, outcome = game.layout, game.weights, game.progress, game.outcome
    for i in range(start, stop):
        _play_one(network, states, tables, clock, layout, weights, progress, outcome, i)


@inlined_kernel
def _play_one(network, states, tables, clock, layout, weights, progress, outcome, i):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    outcome.reward[i] = 0.0
    if not progress.active[i]:
        return
    _act(layout, progress, i)
    progress.step[i] += 1
    if not _advance(network, states, tables, clock, progress, outcome, i):
        return
    _observe(layout, tables, progress, outcome, i)
    _reward(layout, weights, clock, progress, outcome, i)
    for k in range(layout.model.size):
        changed = progress.levels[i, layout.model[k]] != progress.levels_before[i, k]
        progress.since_change[i, k] = 0 if changed else progress.since_change[i, k] + 1


@inlined_kernel
def _act(layout, progress, i):  # type: ignore[no-untyped-def]
    """Move every observed model, within its feasible batch sizes."""
    for k in range(layout.model.size):
        level = progress.levels[i, layout.model[k]]
        progress.levels_before[i, k] = level
        position = layout.position[k, level] + progress.moves[i, k]
        position = max(min(position, layout.n_feasible[k] - 1), 0)
        progress.levels[i, layout.model[k]] = layout.feasible_level[k, position]


@inlined_kernel
def _advance(network, states, tables, clock, progress, outcome, i):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Simulate one interval; False if a power flow diverges."""
    state, levels = state_of(states, i), progress.levels[i]
    tolerance = Tolerance(clock.change_pu, clock.max_iterations)
    for _ in range(clock.interval_s):
        second = progress.second[i]
        t = second - progress.first_second[i]
        looked_up_powers(tables, i, t, levels, outcome.power_w[i])
        kw = tables.element_kw[i, t : t + 1]
        feeding = LoadArrays(tables.datacenter_tan, kw, tables.element_tan, tables.element_of_part)
        if not solve_second(network, state, feeding, 0, outcome.power_w[i], tolerance, second == 0):
            outcome.converged[i] = False
            return False
        progress.second[i] = second + 1
    record_voltages(network, state, outcome.voltages_pu[i])
    for model in range(levels.size):
        outcome.itl_s[i, model] = tables.itl_s[i, t, model, levels[model]]
    outcome.converged[i] = True
    return True


@inlined_kernel
def _observe(layout, tables, progress, outcome, i):  # type: ignore[no-untyped-def]
    """Fill in the observation; layout as `ObservationConfig` has it."""
    voltages_pu, out = outcome.voltages_pu[i], outcome.observation[i]
    filled = _observe_voltages(layout, voltages_pu, out)
    for zone in range(layout.zone_start.size - 1):
        members = layout.zone_member[layout.zone_start[zone] : layout.zone_start[zone + 1]]
        filled = _summarise(voltages_pu, members, layout.v_min, layout.v_max, out, filled)
    power_mw = _observed_power_w(layout, outcome.power_w[i]) / _W_PER_MW
    t = progress.second[i] - 1 - progress.first_second[i]
    for k in range(layout.model.size):
        model = layout.model[k]
        level = progress.levels[i, model]
        ratio = outcome.itl_s[i, model] / layout.deadline_s[k]
        change = (layout.log2_batch[k, level] - layout.log2_batch[k, progress.levels_before[i, k]]) / layout.span[k]
        out[filled] = layout.batch_feature[k, level]
        out[filled + 1] = min(max(ratio, 0.0), _LARGEST_LATENCY_RATIO) if np.isfinite(ratio) else 0.0
        out[filled + 2] = tables.active_replicas[i, t, model] / layout.max_replicas[k]
        out[filled + 3] = power_mw
        out[filled + 4] = min(max(change, -1.0), 1.0)
        outcome.batch_size[i, k] = layout.batch_size[k, level]
        filled += 5


@inlined_kernel
def _observe_voltages(layout, voltages_pu, out):  # type: ignore[no-untyped-def]
    filled = layout.shown.size
    for slot in range(filled):
        out[slot] = voltages_pu[layout.shown[slot]]
    for group in range(layout.group_start.size - 1):
        lowest, highest = np.inf, -np.inf
        for member in layout.group_member[layout.group_start[group] : layout.group_start[group + 1]]:
            lowest, highest = min(lowest, voltages_pu[member]), max(highest, voltages_pu[member])
        out[filled], out[filled + 1] = lowest, highest
        filled += 2
    return filled


@inlined_kernel
def _summarise(voltages_pu, members, v_min, v_max, out, filled):  # type: ignore[no-untyped-def]
    """[worst undervoltage, worst overvoltage, fraction in violation] of some positions; the next free slot."""
    under, over, outside = 0.0, 0.0, 0
    for member in members:
        below, above = max(v_min - voltages_pu[member], 0.0), max(voltages_pu[member] - v_max, 0.0)
        under, over = max(under, below), max(over, above)
        outside += below > 0.0 or above > 0.0
    out[filled], out[filled + 1], out[filled + 2] = under, over, outside / max(members.size, 1)
    return filled + 3


@inlined_kernel
def _observed_power_w(layout, power_w):  # type: ignore[no-untyped-def]
    total = 0.0
    for site in layout.sites:
        total += power_w[site, 0] + power_w[site, 1] + power_w[site, 2]
    return total


@inlined_kernel
def _reward(layout, weights, clock, progress, outcome, i):  # type: ignore[no-untyped-def]
    """Fill in reward, terms and statistics; formulas as in `compute_reward`."""
    terms, statistics = outcome.terms[i], outcome.statistics[i]
    terms[0] = -weights.voltage * _squared_violation(outcome.voltages_pu[i], weights, statistics)
    terms[1] = weights.throughput * _throughput(layout, progress.levels[i])
    terms[2] = -weights.latency * _lateness(layout, outcome.itl_s[i])
    terms[3] = -weights.switch * _switching(layout, weights, progress, i)
    terms[4] = weights.safe * (1.0 - statistics[2])
    total = terms[0] + terms[1] + terms[2] + terms[3] + terms[4]
    terms[5] = 0.0
    if progress.ofo_penalty.shape[1] > 0:
        terms[5] = weights.voltage * progress.ofo_penalty[i, progress.step[i] * clock.interval_s]
        terms[0] += terms[5]
        total += terms[5]
    outcome.reward[i] = max(total, -weights.clip) if weights.clip > 0.0 else total


@inlined_kernel
def _squared_violation(voltages_pu, weights, statistics):  # type: ignore[no-untyped-def]
    """Sum of squared violations (pu^2) over all bus-phases, with their statistics."""
    v_min, v_max = weights.v_min, weights.v_max
    squares, under, over, outside = 0.0, 0.0, 0.0, 0
    for voltage in voltages_pu:
        below, above = max(v_min - voltage, 0.0), max(voltage - v_max, 0.0)
        squares += below * below + above * above
        under, over = max(under, below), max(over, above)
        outside += below > 0.0 or above > 0.0
    statistics[0], statistics[1], statistics[2] = under, over, outside / max(voltages_pu.size, 1)
    return squares


@inlined_kernel
def _throughput(layout, levels):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(layout.model.size):
        total += layout.throughput[k, levels[layout.model[k]]]
    return total


@inlined_kernel
def _lateness(layout, itl_s):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(layout.model.size):
        late = (itl_s[layout.model[k]] - layout.deadline_s[k]) / layout.deadline_s[k]
        if np.isfinite(late) and late > 0.0:
            total += late
    return total


@inlined_kernel
def _switching(layout, weights, progress, i):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(layout.model.size):
        level, before = progress.levels[i, layout.model[k]], progress.levels_before[i, k]
        if level == before:
            continue
        if weights.switch_mode == BINARY:
            total += 1.0
        elif weights.switch_mode == COOLDOWN:
            total += np.exp(-progress.since_change[i, k] / weights.cooldown_tau)
        else:
            total += abs(layout.log2_batch[k, level] - layout.log2_batch[k, before])
    return total
