"""One step of an environment as machine code: act, simulate, observe, reward. One episode, or many side by side.

All arrays travel as one object, a `BatchState`, since handing over a hundred arrays costs more than the power flow.
Threads take whole episodes, so that their number changes no bit. Formulas are in `step_formulas`.

Throughout, `network` is the circuit, `states` a `GridState` of arrays with one more axis of N in front, `tables` the
`StepTables`, `clock` the `Clock`, `layout` the `ObservationLayout`, `weights` the `RewardWeights`, `progress` the
`EpisodeProgress`, `outcome` the `StepArrays` that is filled in, and `i` the episode, 0 to N - 1.
"""

from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from scenario_lib._arrays import Floats, Ints
from scenario_lib.simulation.compiled import step_formulas
from scenario_lib.simulation.compiled.jit import inlined_kernel, kernel
from scenario_lib.simulation.compiled.power_flow import GridState, LoadArrays, Tolerance, record_voltages, solve_second
from scenario_lib.simulation.compiled.servers import LatencyDraws, LatencyFits, Servers, model_power_w, observe_itl
from scenario_lib.simulation.compiled.sparse import copy_values

band_statistics = inlined_kernel(step_formulas.band_statistics)
_moved = inlined_kernel(step_formulas.moved)
_voltage_range = inlined_kernel(step_formulas.voltage_range)
_total_power_w = inlined_kernel(step_formulas.total_power_w)
_model_slots = inlined_kernel(step_formulas.model_slots)
_lateness = inlined_kernel(step_formulas.lateness)
_switching = inlined_kernel(step_formulas.switching)
_fill_terms = inlined_kernel(step_formulas.fill_terms)


@kernel
def fill_power_table(servers: Servers, first_second: int, n_levels: Ints, out_w: Floats) -> None:
    """Power of every model at every batch level. Unused levels stay as they are.

    Args:
        servers: Of all models.
        first_second: That the table begins with.
        n_levels: Levels of each model, shape (M,).
        out_w: Power per phase (W), shape (T, M, L, 3).
    """
    for t in range(out_w.shape[0]):
        for model in range(out_w.shape[1]):
            for level in range(n_levels[model]):
                model_power_w(servers, first_second + t, model, level, out_w[t, model, level])


@kernel
def fill_itl_table(
    fits: LatencyFits, draws: LatencyDraws, replicas: Ints, first_second: int, n_levels: Ints, out_s: Floats
) -> None:
    """Observed latency of every model at every batch level. Unused levels are as the largest.

    Args:
        fits, draws: Of all models.
        replicas: Active ones in every second of the scenario, shape (seconds, M).
        first_second: That the table begins with.
        n_levels: Levels of each model, shape (M,).
        out_s: Latency (s), NaN without a replica, shape (T, M, L).
    """
    row_s = np.empty(n_levels.size)
    for t in range(out_s.shape[0]):
        second = first_second + t
        for level in range(out_s.shape[2]):
            observe_itl(fits, draws, second, np.minimum(level, n_levels - 1), replicas[second], row_s)
            copy_values(row_s, out_s[t, :, level])


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
    """Fill in the power of every site (W), with every model's looked up.

    Args:
        tables: `StepTables`.
        i: Episode.
        t: Second of the episode's tables.
        levels: Batch level of every deployed model, shape (M,).
        out_w: Shape (S, 3).
    """
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


_PARTS = ("network", "states", "tables", "clock", "layout", "weights", "progress", "outcome")


@structref.register
class _BatchStateType(types.StructRef):  # type: ignore[misc]
    """How machine code sees a `BatchState`."""


class BatchState(structref.StructRefProxy):  # type: ignore[misc]
    """Everything about N episodes that the kernels below read and fill in, in parts as named at the top of the file.

    It keeps the arrays alive.
    """


structref.define_proxy(BatchState, _BatchStateType, list(_PARTS))


@kernel
def assemble(network, states, tables, clock, layout, weights, progress, outcome):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """A `BatchState` of these parts, for N episodes."""
    return BatchState(network, states, tables, clock, layout, weights, progress, outcome)


@kernel
def begin(batch: Any, i: int) -> bool:
    """Put episode i to the start of its window and simulate one interval at its initial batch sizes.

    `states` hold its checkpoint and `progress.levels` its batch levels. False if the power flow diverges.
    """
    progress, outcome, layout = batch.progress, batch.outcome, batch.layout
    for k in range(layout.model.size):
        progress.levels_before[i, k] = progress.levels[i, layout.model[k]]
    if not _advance(batch.network, batch.states, batch.tables, batch.clock, progress, outcome, i):
        return False
    _observe(layout, batch.tables, progress, outcome, i)
    return True


@kernel
def advance(batch: Any, start: int, stop: int) -> None:
    """Simulate one interval of the active ones among episodes start to stop - 1 at the batch levels that `progress`
    holds; nothing is observed or rewarded."""
    network, states, tables, clock = batch.network, batch.states, batch.tables, batch.clock
    progress, outcome = batch.progress, batch.outcome
    for i in range(start, stop):
        if progress.active[i]:
            _advance(network, states, tables, clock, progress, outcome, i)


@kernel
def play(batch: Any, start: int, stop: int) -> None:
    """One step of the active ones among episodes start to stop - 1, one after another; holds no lock of Python's."""
    network, states, tables, clock = batch.network, batch.states, batch.tables, batch.clock
    layout, weights, progress, outcome = batch.layout, batch.weights, batch.progress, batch.outcome
    for i in range(start, stop):
        outcome.reward[i] = 0.0
        if not progress.active[i]:
            continue
        _act(layout, progress, i)
        progress.step[i] += 1
        if not _advance(network, states, tables, clock, progress, outcome, i):
            continue
        _observe(layout, tables, progress, outcome, i)
        _reward(layout, weights, clock, progress, outcome, i)
        _count_since_change(layout, progress, i)


@inlined_kernel
def _act(layout, progress, i):  # type: ignore[no-untyped-def]
    """Move every observed model, within its feasible batch sizes."""
    for k in range(layout.model.size):
        level = progress.levels[i, layout.model[k]]
        progress.levels_before[i, k] = level
        position = _moved(layout.position[k, level], progress.moves[i, k], layout.n_feasible[k])
        progress.levels[i, layout.model[k]] = layout.feasible_level[k, position]


@inlined_kernel
def _advance(network, states, tables, clock, progress, outcome, i):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Simulate one interval; False if a power flow diverges. Arguments as at the top of the file."""
    state, levels = state_of(states, i), progress.levels[i]
    tolerance = Tolerance(clock.change_pu, clock.max_iterations)
    for _ in range(clock.interval_s):
        second = progress.second[i]
        t = second - progress.first_second[i]
        looked_up_powers(tables, i, t, levels, outcome.power_w[i])
        kw = tables.element_kw[i, t : t + 1]
        load_arrays = LoadArrays(tables.datacenter_tan, kw, tables.element_tan, tables.element_of_part)
        if not solve_second(network, state, load_arrays, 0, outcome.power_w[i], tolerance, second == 0):
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
    """Fill in the observation, and the batch sizes; slots in the order that `ObservationConfig` has them.

    Arguments as at the top of the file.
    """
    voltages_pu, out = outcome.voltages_pu[i], outcome.observation[i]
    filled = _observe_voltages(layout, voltages_pu, out)
    power_w = _total_power_w(outcome.power_w[i], layout.sites)
    t = progress.second[i] - 1 - progress.first_second[i]
    for k in range(layout.model.size):
        model = layout.model[k]
        level, before = progress.levels[i, model], progress.levels_before[i, k]
        out[filled], out[filled + 1], out[filled + 2], out[filled + 3], out[filled + 4] = _model_slots(
            layout.batch_feature[k, level],
            (layout.log2_batch[k, level] - layout.log2_batch[k, before]) / layout.span[k],
            outcome.itl_s[i, model] / layout.deadline_s[k],
            tables.active_replicas[i, t, model] / layout.max_replicas[k],
            power_w,
        )
        outcome.batch_size[i, k] = layout.batch_size[k, level]
        filled += 5


@inlined_kernel
def _observe_voltages(layout, voltages_pu, out):  # type: ignore[no-untyped-def]
    """Fill in voltages and summaries of violations; the next free slot."""
    filled = layout.shown.size
    for slot in range(filled):
        out[slot] = voltages_pu[layout.shown[slot]]
    for group in range(layout.group_start.size - 1):
        members = layout.group_member[layout.group_start[group] : layout.group_start[group + 1]]
        out[filled], out[filled + 1] = _voltage_range(voltages_pu, members)
        filled += 2
    for zone in range(layout.zone_start.size - 1):
        members = layout.zone_member[layout.zone_start[zone] : layout.zone_start[zone + 1]]
        out[filled], out[filled + 1], out[filled + 2], _ = band_statistics(
            voltages_pu[members], layout.v_min, layout.v_max
        )
        filled += 3
    return filled


@inlined_kernel
def _reward(layout, weights, clock, progress, outcome, i):  # type: ignore[no-untyped-def]
    """Fill in reward, terms and statistics. Arguments as at the top of the file."""
    under, over, outside, squares = band_statistics(outcome.voltages_pu[i], weights.v_min, weights.v_max)
    statistics = outcome.statistics[i]
    statistics[0], statistics[1], statistics[2] = under, over, outside
    throughput, late, switched = 0.0, 0.0, 0.0
    for k in range(layout.model.size):
        model = layout.model[k]
        level, before = progress.levels[i, model], progress.levels_before[i, k]
        throughput += layout.throughput[k, level]
        late += _lateness(outcome.itl_s[i, model], layout.deadline_s[k])
        if level != before:
            change = layout.log2_batch[k, level] - layout.log2_batch[k, before]
            switched += _switching(change, progress.since_change[i, k], weights.switch_mode, weights.cooldown_tau)
    ofo_pu2 = 0.0
    if progress.ofo_penalty.shape[1] > 0:
        ofo_pu2 = progress.ofo_penalty[i, progress.step[i] * clock.interval_s]
    figures = squares, throughput, late, switched, outside
    outcome.reward[i] = _fill_terms(weights, figures, ofo_pu2, outcome.terms[i])


@inlined_kernel
def _count_since_change(layout, progress, i):  # type: ignore[no-untyped-def]
    for k in range(layout.model.size):
        changed = progress.levels[i, layout.model[k]] != progress.levels_before[i, k]
        progress.since_change[i, k] = 0 if changed else progress.since_change[i, k] + 1
