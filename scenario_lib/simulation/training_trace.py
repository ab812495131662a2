"""The single-GPU power trace of the training overlay, made from parameters, and its digest.

Kept apart from the other assets because checking a record needs it, and must not load OpenDSS.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from openg2g.datacenter.workloads.training import TrainingTrace, TrainingTraceParams

from scenario_lib.feeders.checks import ANY, Bounds, count, positive, refuse, require_at_least, require_bounds

# A convolution inside the generator may differ in the last bit between processors; a digest of micro-watts does not.
_DIGEST_DECIMALS = 6

_MOST_SAMPLES = 1_000_000
"""Stored parameters come from a file; a trace of hours at a tenth of a second is far below this."""

_MOST_PIECES = 100_000
"""Segments or dips: the generator makes them one by one."""

_MOST_SUMMANDS = 1_000_000_000
"""Of all smoothing windows, or of all dips: some seconds of work."""

_BOUNDS = {
    "duration_s": Bounds(-1e15, 1e15),  # only its ratio to `dt_s` matters, which is checked below
    "dt_s": Bounds(-1e15, 1e15),
    "seed": count(0, 2**63 - 1),
    "P_hi": ANY,
    "P_lo": ANY,
    "sigma_hi": Bounds(0),
    "sigma_lo": Bounds(0),
    "dip_prob_per_sec": Bounds(0),
    "smooth_window_s": Bounds(0),
    "ramp_s": Bounds(0),
    "ramp_from": ANY,
}
_RANGE_BOUNDS = {
    "seg_lo_range": positive(),
    "seg_hi_range": positive(),
    "dip_depth_range": ANY,
    "dip_dur_range": Bounds(0),
}


@dataclass(frozen=True, slots=True)
class TrainingTraceRecipe:
    """What a library keeps of its training trace: the generator's parameters and the digest of the result."""

    params: dict[str, Any]
    digest: str


def make_training_trace() -> TrainingTrace:
    """openg2g's synthetic training trace with its default parameters: 1000 s at 0.1 s."""
    return TrainingTrace.generate()


def training_trace_digest(trace: TrainingTrace) -> str:
    """SHA-256 of times (s) and powers (W), rounded to micro-units."""
    rounded = np.round(np.stack([trace.t_s, trace.power_w]).astype("<f8"), _DIGEST_DECIMALS) + 0.0
    return hashlib.sha256(rounded.tobytes()).hexdigest()


def training_trace_recipe() -> TrainingTraceRecipe:
    """The recipe of the trace that rollouts use."""
    params = TrainingTraceParams()
    return TrainingTraceRecipe(params.model_dump(mode="json"), training_trace_digest(TrainingTrace.generate(params)))


def regenerate_training_trace(params: dict[str, Any]) -> TrainingTrace:
    """The trace that stored parameters mean.

    Raises:
        ValueError, TypeError: They are not those of a trace.
    """
    parsed = TrainingTraceParams(**params)
    require_bounds(parsed, _BOUNDS)
    if parsed.dt_s <= 0 or not 1 <= parsed.duration_s / parsed.dt_s <= _MOST_SAMPLES:
        raise ValueError(f"{parsed.duration_s} s at {parsed.dt_s} s is not between 1 and {_MOST_SAMPLES} samples")
    for name, bounds in _RANGE_BOUNDS.items():
        low, high = getattr(parsed, name)
        bounds.require(name, low)
        bounds.require(name, high)
        require_at_least(f"upper end of {name}", high, low)
    _require_little_work(parsed)
    return TrainingTrace.generate(parsed)


def _require_little_work(params: TrainingTraceParams) -> None:
    """Refuse parameters that would keep the generator busy: it is to be trusted with a stranger's."""
    samples = params.duration_s / params.dt_s
    shortest_s = min(params.seg_lo_range[0], params.seg_hi_range[0])
    if shortest_s < params.dt_s or params.duration_s / shortest_s > _MOST_PIECES:
        raise refuse("seg_lo_range, seg_hi_range", shortest_s, f"at least dt_s, and at most {_MOST_PIECES} segments")
    dips = params.dip_prob_per_sec * params.duration_s
    if dips > _MOST_PIECES or dips * params.dip_dur_range[1] / params.dt_s > _MOST_SUMMANDS:
        raise refuse("dip_prob_per_sec", params.dip_prob_per_sec, f"at most {_MOST_PIECES} dips, and short ones")
    if samples * params.smooth_window_s / params.dt_s > _MOST_SUMMANDS or params.smooth_window_s > params.duration_s:
        raise refuse("smooth_window_s", params.smooth_window_s, "a window far shorter than the trace")
