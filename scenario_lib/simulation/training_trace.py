"""The single-GPU power trace of the training overlay, made from parameters, and its digest.

Kept apart from the other assets because checking a record needs it, and must not load OpenDSS.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from openg2g.datacenter.workloads.training import TrainingTrace, TrainingTraceParams

# A convolution inside the generator may differ in the last bit between processors; a digest of micro-watts does not.
_DIGEST_DECIMALS = 6

_MOST_SAMPLES = 1_000_000
"""Stored parameters come from a file; a trace of hours at a tenth of a second is far below this."""


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
    if not 0 < parsed.duration_s / parsed.dt_s <= _MOST_SAMPLES:
        raise ValueError(f"{parsed.duration_s} s at {parsed.dt_s} s is not between 1 and {_MOST_SAMPLES} samples")
    return TrainingTrace.generate(parsed)
