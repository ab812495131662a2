"""The training trace: made from parameters, and recognised by its digest."""

import json
import subprocess
import sys

import numpy as np
import pytest

from scenario_lib.simulation.training_trace import (
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


def test_checking_a_trace_loads_no_simulator() -> None:
    code = (
        "import sys; from scenario_lib.simulation.training_trace import training_trace_recipe; "
        "print(training_trace_recipe().digest, [m for m in sys.modules if m.startswith('opendss')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == [DIGEST, "[]\n"]
