"""openg2g as it is, our reference engine and the compiled one, side by side in one run on this machine.

    python benchmarks/engines.py --system ieee13 --rollouts 3 --candidates 100

Prints one line of JSON per system. Times are medians with their spread (lowest, highest). Kernels are compiled
before anything is timed.
"""

import argparse
import json
import statistics
from collections.abc import Sequence

from engine_timings import (
    Bench,
    compiled_parts_s,
    compiled_solve_s,
    cpu_s,
    lockstep_s,
    opendss_solve_s,
    plain_rollouts_s,
    reference_rollouts_s,
    workers_s,
)

from scenario_lib.simulation.compiled.rollout import compile_scenario, run_compiled

_PARTS = ("draw", "tables", "baseline", "ofo", "measures")


def spread(values: Sequence[float], unit: float, digits: int = 2) -> dict[str, float]:
    """Median, lowest and highest, in a unit given in seconds."""
    scaled = [value / unit for value in values]
    named = {"median": statistics.median(scaled), "low": min(scaled), "high": max(scaled)}
    return {name: round(value, digits) for name, value in named.items()}


def rollout_figures(bench: Bench, n_rollouts: int) -> dict[str, object]:
    """Times of rollouts and of whole candidates on all three, and the ratios between them."""
    compiled_parts_s(bench, 0)
    runs: dict[str, list[tuple[list[float], float]]] = {"plain_openg2g": [], "reference": [], "compiled": []}
    for index in range(n_rollouts):
        scenario = bench.draw(index)
        runs["plain_openg2g"].append(cpu_s(lambda s=scenario: plain_rollouts_s(bench, s)))
        runs["reference"].append(cpu_s(lambda s=scenario: reference_rollouts_s(bench, s)))
        runs["compiled"] += [cpu_s(lambda i=index: compiled_parts_s(bench, i)) for _ in range(5)]
    plain, reference, compiled = ([times for times, _ in each] for each in runs.values())
    whole = {name: [sum(times) for times, _ in each] for name, each in runs.items()}
    medians = {name: statistics.median(times) for name, times in whole.items()}
    cpu = {name: statistics.median(seconds for _, seconds in each) for name, each in runs.items()}
    return {
        "plain_openg2g_s": dict(zip(("baseline", "ofo"), _columns(plain, 1.0), strict=True)),
        "reference_s": dict(zip(("baseline", "ofo"), _columns(reference, 1.0), strict=True)),
        "compiled_ms": dict(zip(_PARTS, _columns(compiled, 1e-3), strict=True)),
        "candidate_s": {name: spread(times, 1.0, 4) for name, times in whole.items()},
        "candidate_cpu_s": {name: round(seconds, 4) for name, seconds in cpu.items()},
        "plain_over_compiled_cpu": round(cpu["plain_openg2g"] / cpu["compiled"], 1),
        "plain_over_compiled": round(medians["plain_openg2g"] / medians["compiled"], 1),
        "reference_over_compiled": round(medians["reference"] / medians["compiled"], 1),
    }


def _columns(rows: Sequence[Sequence[float]], unit: float) -> list[dict[str, float]]:
    return [spread(column, unit) for column in zip(*rows, strict=True)]


def solve_figures(bench: Bench) -> dict[str, float]:
    """Microseconds of one power flow, ours called from Python like OpenDSS's, and within the loop."""
    scenario = bench.draw(0)
    compiled = compile_scenario(scenario, bench.experiment, bench.assets)
    power_w = run_compiled(compiled, "none").power_w
    called_s, iterations = compiled_solve_s(compiled, power_w, range(600))
    return {
        "opendss_us": round(opendss_solve_s(bench, scenario) * 1e6, 1),
        "compiled_called_from_python_us": round(called_s * 1e6, 1),
        "iterations": round(iterations, 3),
    }


def lockstep_figures(bench: Bench, sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """Thousand scenario steps a second for N scenarios with one and two threads."""
    return {
        f"{threads} threads": {str(n): round(n / lockstep_s(bench, n, threads, 300) / 1e3, 1) for n in sizes}
        for threads in (1, 2)
    }


def worker_figures(system: str, n_candidates: int) -> dict[str, object]:
    """Candidates a second end to end with one and two workers, and peak memory."""
    one, two = (workers_s(system, n_candidates, jobs) for jobs in (1, 2))
    return {
        "candidates": n_candidates,
        "per_s_1_worker": round(1 / one[0], 2),
        "per_s_2_workers": round(1 / two[0], 2),
        "two_over_one": round(one[0] / two[0], 2),
        "peak_mb_at_half_and_end": [round(one[1]), round(one[2])],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", action="append")
    parser.add_argument("--rollouts", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--lockstep", type=int, nargs="*", default=[1, 16, 64, 256])
    arguments = parser.parse_args()
    for system in arguments.system or ["ieee13", "ieee34", "ieee123"]:
        bench = Bench.of(system)
        figures: dict[str, object] = {"system": system, **rollout_figures(bench, arguments.rollouts)}
        figures["solve"] = solve_figures(bench)
        figures["workers"] = worker_figures(system, arguments.candidates)
        figures["lockstep_thousand_steps_per_s"] = lockstep_figures(bench, arguments.lockstep)
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
