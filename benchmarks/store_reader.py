"""One reader of a library, as a process of its own: opens it, samples, and waits to be looked at.

    python benchmarks/store_reader.py LIBRARY DRAWS

Prints one line of JSON and stays until its input ends.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def percentiles_ms(times: list[tuple[float, float]]) -> dict[str, float]:
    """Median and 99th percentile (ms), by the clock and of the processor."""
    wall, cpu = (np.array(column) * 1e3 for column in zip(*times, strict=True))
    return {
        "median_ms": round(float(np.median(wall)), 3),
        "p99_ms": round(float(np.quantile(wall, 0.99)), 3),
        "cpu_median_ms": round(float(np.median(cpu)), 3),
        "cpu_p99_ms": round(float(np.quantile(cpu, 0.99)), 3),
    }


def both_traces(record: ScenarioRecord) -> None:
    """Read a record's traces."""
    _ = record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step


def read(path: str, n_draws: int) -> tuple[ScenarioLibrary, dict[str, object]]:
    """The library, with times of opening, of sampling and materialising a record, and of reading both its traces."""
    opened: list[ScenarioLibrary] = []
    open_s, open_cpu_s = timed(lambda: opened.append(ScenarioLibrary(path)))
    (library,) = opened
    rng = np.random.default_rng()
    # The first draw also generates the training trace, once a process.
    first_s, _ = timed(lambda: library.materialize(library.sample(rng)))
    draws, traces = [], []
    for _ in range(n_draws):
        draws.append(timed(lambda: library.materialize(library.sample(rng))))
        traces.append(timed(partial(both_traces, library.sample(rng))))
    seed_s, _ = timed(lambda: library.record_for(library[-1].seed))
    return library, {
        "open_s": round(open_s, 3),
        "open_cpu_s": round(open_cpu_s, 3),
        "first_draw_s": round(first_s, 3),
        "record_for_first_ms": round(seed_s * 1e3, 1),
        "sample_and_materialize": percentiles_ms(draws),
        "both_traces": percentiles_ms(traces),
    }


if __name__ == "__main__":
    # It stays in memory while that is looked at.
    library, figures = read(sys.argv[1], int(sys.argv[2]))
    print(json.dumps(figures), flush=True)
    sys.stdin.read()
