"""Made-up figures of candidates, and measuring functions that make them without simulating; workers import this."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.candidate import Candidate, MeasuredCandidate, MeasurePlan, measure_candidate

POISON_SEED = 2007
"""The seed that misbehaves in the measuring functions below."""


def voltages(integral_pu_s: float, under_s: float = 100.0, over_s: float = 0.0) -> VoltageMeasures:
    """Measures of a rollout; not in violation if both times are 0."""
    return VoltageMeasures(integral_pu_s, max(under_s, over_s), under_s, over_s, 0.93, 1.02)


NOTHING = voltages(0.0, 0.0, 0.0)


def measured(seed: int, baseline: VoltageMeasures | None, ofo: VoltageMeasures | None = None, **more: Any) -> Candidate:
    return Candidate(seed, "digest", 1.0, 1.0, baseline, ofo, **{"ofo_always_min": False, **more})


def accepted(seed: int, always_min: bool = False) -> Candidate:
    return measured(
        seed, voltages(10.0), voltages(1.0), ofo_always_min=always_min, first_violation_s=1000, last_violation_s=2000
    )


def measure(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    """Of every three seeds the first is accepted, the second has no violation, the third cannot be fixed."""
    scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
    figures: dict[str, Any] = {
        "seed": seed,
        "scenario_digest": scenario_digest(scenario),
        "pv_scale": scenario.params.pv_scale,
        "load_scale": scenario.params.load_scale,
    }
    position = seed // 1000 % 3
    if position == 1:
        return Candidate(**figures, baseline=NOTHING), None
    figures |= {"first_violation_s": 1000, "last_violation_s": 2000, "ofo_always_min": False}
    ofo = voltages(1.0 + seed / 1e6 if position == 0 else 9.0)
    traces = np.random.default_rng(seed).random((2, 3600)) if position == 0 else None
    return Candidate(**figures, baseline=voltages(10.0), ofo=ofo), traces


def measure_in_odd_order(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    """Later seeds are often finished first."""
    time.sleep(0.25 if seed // 1000 % 3 == 0 else 0.0)
    return measure(plan, seed)


def measure_or_raise(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    if seed == POISON_SEED:
        raise MemoryError("out of memory, say")
    return measure(plan, seed)


def measure_or_die(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    if seed == POISON_SEED:
        os.kill(os.getpid(), signal.SIGKILL)
    return measure(plan, seed)


def measure_or_loop(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    while seed == POISON_SEED:
        time.sleep(0.01)
    return measure(plan, seed)


def measure_until_told(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    """The first two seeds at once; the others only when a file is there that the environment names."""
    while seed > 1007 and not Path(os.environ["WAIT_FOR"]).exists():
        time.sleep(0.02)
    return measure(plan, seed)


def measure_nothing(plan: MeasurePlan, seed: int) -> MeasuredCandidate:
    """No candidate has a violation."""
    return measure(plan, seed // 1000 // 3 * 3000 + 1007)


def measure_and_weigh(plan: MeasurePlan, seed: int) -> float:
    """Memory of the worker (MB) after a real candidate."""
    candidate, _ = measure_candidate(plan, seed)
    assert candidate.baseline is not None
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
