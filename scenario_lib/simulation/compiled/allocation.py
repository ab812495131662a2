"""Which servers a model runs on: openg2g's phase-balanced round robin, as a kernel.

Models take servers in the order of their labels; each goes through phases A, B, C in turn and takes its own
highest-priority server of that phase that nobody has claimed. An allocation depends on the demand only, which changes
only inside ramps.
"""

import numpy as np

from scenario_lib.simulation.compiled.kernels import kernel


@kernel
def allocate(by_phase, phase_start, wanted, claim_order, servers, phase_count):  # type: ignore[no-untyped-def]
    """Claim servers for all models; within a model they are listed phase by phase, each in the order of claiming.

    Args:
        by_phase: For each model, its priority order sorted stably by phase, shape (M, servers).
        phase_start: Where each phase begins in these, shape (4,).
        wanted: Servers that each model asks for, shape (M,).
        claim_order: Models in the order in which they claim, shape (M,).
        servers: Room for the claimed servers, model by model in claiming order.
        phase_count: Room for how many each model has on each phase, shape (M, 3).

    Returns:
        -1, or the first model for which the pool has too few servers.
    """
    claimed = np.zeros(by_phase.shape[1], np.int8)
    filled = 0
    for model in claim_order:
        short = _claim(by_phase[model], phase_start, wanted[model], claimed, phase_count[model])
        if short:
            return model
        for phase in range(3):
            left = phase_count[model, phase]
            p = phase_start[phase]
            while left > 0:
                server = by_phase[model, p]
                p += 1
                if claimed[server] == 2:
                    servers[filled] = server
                    claimed[server] = 1
                    filled += 1
                    left -= 1
    return -1


@kernel
def _claim(by_phase, phase_start, wanted, claimed, phase_count):  # type: ignore[no-untyped-def]
    """Mark one model's servers with 2 and count them by phase; True if there are too few."""
    cursor = phase_start[:3].copy()
    phase_count[:] = 0
    phase = 0
    for _ in range(wanted):
        taken = _next_free(by_phase, phase_start, claimed, cursor, phase)
        if taken < 0:
            return True
        claimed[by_phase[cursor[taken] - 1]] = 2
        phase_count[taken] += 1
        phase = (taken + 1) % 3
    return False


@kernel
def _next_free(by_phase, phase_start, claimed, cursor, phase):  # type: ignore[no-untyped-def]
    """The phase, tried from `phase` on, that has a free server; the cursor there ends one beyond it. -1 if none."""
    for attempt in range(3):
        tried = (phase + attempt) % 3
        while cursor[tried] < phase_start[tried + 1]:
            cursor[tried] += 1
            if not claimed[by_phase[cursor[tried] - 1]]:
                return tried
    return -1


@kernel
def allocate_all(by_phase, phase_start, wanted, claim_order, servers, phase_count):  # type: ignore[no-untyped-def]
    """`allocate` for each of D demands: one more axis of D in front of `wanted`, `servers` and `phase_count`.

    Returns:
        (demand, model) that is short of servers, or (-1, -1).
    """
    for demand in range(wanted.shape[0]):
        short = allocate(by_phase, phase_start, wanted[demand], claim_order, servers[demand], phase_count[demand])
        if short >= 0:
            return demand, short
    return -1, -1
