"""The training trace: made from parameters, and recognised by its digest."""

import json
import subprocess
import sys

import numpy as np
import pytest
from openg2g.datacenter.workloads.training import TrainingTrace, TrainingTraceParams

from scenario_lib.models.power_traces import (
    make_training_trace,
    regenerate_training_trace,
    training_trace_digest,
    training_trace_recipe,
)

# Of openg2g 0.2's default trace, in micro-watts.
DIGEST = "838a92e029b503e6eae7cefb63155de8a797307b5b0afaafa5bd1ea3e1f5cbb3"


def test_the_default_trace() -> None:
    trace = make_training_trace()
    assert trace.t_s.shape == trace.power_w.shape == (10_000,)
    assert np.diff(trace.t_s) == pytest.approx(0.1)
    assert np.isfinite(trace.power_w).all()
    assert (trace.power_w > 0).all()
    assert training_trace_digest(trace) == DIGEST


def test_the_same_trace_from_stored_parameters() -> None:
    recipe = training_trace_recipe()
    assert recipe.digest == DIGEST
    again = regenerate_training_trace(json.loads(json.dumps(recipe.params)))
    assert training_trace_digest(again) == recipe.digest
    assert np.array_equal(again.power_w, make_training_trace().power_w)


def test_other_parameters_are_another_trace() -> None:
    params = training_trace_recipe().params
    for name, value in {"seed": params["seed"] + 1, "duration_s": 500.0}.items():
        other = regenerate_training_trace({**params, name: value})
        assert training_trace_digest(other) != DIGEST


def test_a_digest_of_micro_watts_forgives_the_last_bits_only() -> None:
    trace = make_training_trace()
    power = trace.power_w.copy()
    power[17] = np.nextafter(power[17], np.inf)
    nudged = type(trace)(t_s=trace.t_s, power_w=power)
    assert training_trace_digest(nudged) == DIGEST
    power[17] += 1e-4
    assert training_trace_digest(type(trace)(t_s=trace.t_s, power_w=power)) != DIGEST


@pytest.mark.parametrize("change", [{"dt_s": 0}, {"duration_s": "long"}, {"dt_s": 1e-12}, {"duration_s": -1.0}])
def test_parameters_of_no_trace_are_refused(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, ZeroDivisionError)):
        regenerate_training_trace({**training_trace_recipe().params, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"seg_lo_range": [0, 0], "seg_hi_range": [0, 0]},
        {"seg_hi_range": [-5, -1]},
        {"seg_lo_range": [1e-9, 1e-9], "seg_hi_range": [1e-9, 1e-9]},
        {"seg_lo_range": [15, 10]},
        {"dip_prob_per_sec": 1e12},
        {"dip_prob_per_sec": -1},
        {"dip_prob_per_sec": 90, "dip_dur_range": [0, 1e6]},
        {"dip_dur_range": [0.14, 0.06]},
        {"smooth_window_s": 1e9},
        {"smooth_window_s": 90_000, "duration_s": 100_000},
        {"sigma_hi": -1},
        {"sigma_lo": 1e300},
        {"P_hi": float("nan")},
        {"P_lo": float("inf")},
        {"ramp_s": 1e12},
        {"seed": -1},
        {"seed": 10**30},
        {"dt_s": -0.1, "duration_s": -1000},
        {"duration_s": 1e300},
        {"dt_s": float("nan")},
    ],
    ids=str,
)
def test_parameters_that_would_keep_the_generator_busy_are_refused(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    monkeypatch.setattr(TrainingTrace, "generate", None)  # nothing is begun
    with pytest.raises(ValueError, match="expected|not between"):
        regenerate_training_trace({**training_trace_recipe_params(), **change})


def training_trace_recipe_params() -> dict[str, object]:
    return TrainingTraceParams().model_dump(mode="json")


def test_checking_a_trace_loads_no_simulator() -> None:
    code = (
        "import sys; from scenario_lib.models.power_traces import training_trace_recipe; "
        "print(training_trace_recipe().digest, [m for m in sys.modules if m.startswith('opendss')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == [DIGEST, "[]\n"]
