"""Seconds per candidate: plain openg2g beside `scenario-lib build` with one and two workers, in one run.

    python benchmarks/candidates.py --system ieee13 --candidates 8

The candidates are the same in all three; each needs both rollouts (the full table), so that the work is the same.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from plain_openg2g import plain_integral_pu_s

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.assets import load_assets


def plain_seconds(plan: MeasurePlan, request: CandidateRequest) -> float:
    """Mean time of a candidate on plain openg2g (s), with data loaded before."""
    assets = load_assets(plan.experiment)
    started = time.perf_counter()
    for seed in request.seed_order():
        scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
        for policy in ("none", "ofo"):
            plain_integral_pu_s(scenario, plan.experiment, assets, policy)
    return (time.perf_counter() - started) / request.most_candidates


def build_seconds(plan: MeasurePlan, request: CandidateRequest, jobs: int) -> float:
    """Mean time of a candidate in a whole build (s): start of the workers, journal and library included."""
    folder = Path(tempfile.mkdtemp())
    started = time.perf_counter()
    build_library(plan, request, BuildOptions(folder / "library", jobs=jobs))
    seconds = (time.perf_counter() - started) / request.most_candidates
    shutil.rmtree(folder)
    return seconds


def main() -> None:
    """Measure and print one line of JSON per system."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", action="append")
    parser.add_argument("--candidates", type=int, default=8)
    arguments = parser.parse_args()
    for system in arguments.system or ["ieee13", "ieee34", "ieee123"]:
        experiment = load_experiment(system)
        settings = RandomizationSettings(randomize_ramps=experiment.randomize_ramps_default)
        plan = MeasurePlan(experiment, settings, ScreeningCriteria(), full_table=True)
        request = CandidateRequest(candidates=arguments.candidates)
        plain = plain_seconds(plan, request)
        one, two = (build_seconds(plan, request, jobs) for jobs in (1, 2))
        print(
            json.dumps(
                {
                    "system": system,
                    "candidates": arguments.candidates,
                    "plain_openg2g_s": round(plain, 3),
                    "build_1_worker_s": round(one, 3),
                    "build_2_workers_s": round(two, 3),
                    "plain_over_1_worker": round(plain / one, 2),
                    "plain_over_2_workers": round(plain / two, 2),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
