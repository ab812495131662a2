"""Environments on the compiled engine beside those on the reference engine: the same steps, in one run.

    python benchmarks/environments.py --system ieee13 --envs 64 --threads 2

Builds a small library per system, then prints one line of JSON: steps a second of a single environment on both
engines and of N in lockstep, observations and rewards included, the same where no episode was compiled before, and
the time of a truncated episode's reset.
Kernels are compiled before anything is timed; figures are medians with their spread (lowest, highest).
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib.env.factories import (
    make_batch_size_env,
    make_batch_size_vector_env,
    make_shared_batch_size_env,
    make_shared_batch_size_vector_env,
)
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.compiled.episode import EPISODE_CACHE_MB, EPISODES

ROUNDS = 7
FRESH_STEPS = 8000  # of each environment: several episodes


def spread(values: Sequence[float], digits: int = 0) -> dict[str, float]:
    """Median, lowest and highest."""
    named = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    return {name: round(value, digits) for name, value in named.items()}


def seconds(action: Callable[[], Any]) -> float:
    """Wall time of an action (s)."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def small_library(system: str, folder: Path) -> ScenarioLibrary:
    """Scenarios of a system whose violations OFO removes to at least a fifth."""
    experiment = load_experiment(system)
    settings = RandomizationSettings(randomize_ramps=experiment.randomize_ramps_default)
    plan = MeasurePlan(experiment, settings, ScreeningCriteria(min_recovery_frac=0.2))
    request = CandidateRequest(accept=4, max_candidates=400)
    return ScenarioLibrary(build_library(plan, request, BuildOptions(folder / system)).path)


def play(env: Any, actions: np.ndarray) -> None:
    """Take all actions."""
    for action in actions:
        env.step(action)


def single_figures(make: Callable[..., Any], library: ScenarioLibrary, n_steps: int) -> dict[str, object]:
    """Steps a second and resets of one environment on both engines, on the longest episode of the library."""
    longest = max(library, key=lambda record: record.t_control_end - record.t_control_start)
    options = {"scenario": longest.seed}
    compiled, reference = make(library), make(library, engine="reference")
    n_steps = min(n_steps, longest.t_control_end - longest.t_control_start - 2)
    actions = np.random.default_rng(0).integers(0, 3, (n_steps, *compiled.action_space.shape))
    compiled.reset(seed=0, options=options)
    latest = max(library, key=lambda record: record.t_control_start)
    long_reset_s = seconds(lambda: reference.reset(seed=0, options={"scenario": latest.seed}))
    reference.reset(seed=0, options=options)
    fast, slow, agreement = [], [], 0.0
    part = n_steps // ROUNDS
    for turn in range(ROUNDS):
        taken = actions[turn * part : (turn + 1) * part]
        slow.append(part / seconds(lambda taken=taken: play(reference, taken)))
        fast.append(part / seconds(lambda taken=taken: play(compiled, taken)))
        again = np.ones(compiled.action_space.shape, int)
        agreement = max(agreement, abs(compiled.step(again)[1] - reference.step(again)[1]))
    cold, cached = reset_times(compiled, library)
    return {
        "reference_steps_per_s": spread(slow),
        "compiled_steps_per_s": spread(fast),
        "compiled_over_reference": round(statistics.median(fast) / statistics.median(slow), 1),
        "largest_reward_difference": agreement,
        "reset_reference_s": {"t_control_start": latest.t_control_start, "s": round(long_reset_s, 2)},
        "reset_cold_ms": spread(cold, 2),
        "reset_compiled_before_ms": spread(cached, 2),
    }


def reset_times(env: Any, library: ScenarioLibrary) -> tuple[list[float], list[float]]:
    """Resets (ms) of scenarios that were not compiled before, and of ones that were."""
    cold, cached = [], []
    for record in library:
        options = {"scenario": record.seed}
        EPISODES.clear()
        cold.append(1e3 * seconds(lambda options=options: env.reset(options=options)))
        cached += [1e3 * seconds(lambda options=options: env.reset(options=options)) for _ in range(3)]
    return cold, cached


def vector_figures(make: Callable[..., Any], library: ScenarioLibrary, n_envs: int, threads: int) -> dict[str, float]:
    """Steps a second of N environments in lockstep, each on a scenario of its own."""
    env = make(n_envs, library, threads=threads)
    env.reset(seed=0)
    actions = np.random.default_rng(1).integers(0, 3, (60, *env.action_space.shape))
    play(env, actions[:5])
    return spread([n_envs * len(actions) / seconds(lambda: play(env, actions)) for _ in range(ROUNDS)])


def fresh_episode_figures(make: Callable[..., Any], library: ScenarioLibrary, n_envs: int) -> dict[str, object]:
    """Steps a second where every episode is compiled when it comes: a library too large to be kept compiled.

    Compiled ahead or not; what a step waits for then, beside the steps themselves, is a policy's, here none.
    """
    found: dict[str, object] = {"envs": n_envs}
    EPISODES.resize(0)
    for name, prefetch in (("compiled_when_reset", False), ("compiled_ahead", True)):
        env = make(n_envs, library, prefetch=prefetch, autoreset_mode="SameStep")
        env.reset(seed=0)
        actions = np.random.default_rng(1).integers(0, 3, (FRESH_STEPS, *env.action_space.shape))
        found[name] = round(n_envs * FRESH_STEPS / seconds(lambda env=env, actions=actions: play(env, actions)))
        env.close()
    EPISODES.resize(EPISODE_CACHE_MB)
    return found


def figures(system: str, arguments: argparse.Namespace) -> dict[str, object]:
    """All figures of one system."""
    with tempfile.TemporaryDirectory() as folder:
        library = small_library(system, Path(folder))
        several = len(load_experiment(system).sites) > 1
        single = make_shared_batch_size_env if several else make_batch_size_env
        vector = make_shared_batch_size_vector_env if several else make_batch_size_vector_env
        threads = sorted({1, arguments.threads})
        return {
            "system": system,
            **single_figures(single, library, arguments.steps),
            "lockstep_envs": arguments.envs,
            "lockstep_steps_per_s": {
                f"{count}_threads": vector_figures(vector, library, arguments.envs, count) for count in threads
            },
            "fresh_episodes_steps_per_s": fresh_episode_figures(vector, library, n_envs=8),
        }


def main() -> None:
    """Measure and print one line of JSON per system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append")
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    for system in arguments.system or ["ieee13", "ieee34", "ieee123"]:
        print(json.dumps(figures(system, arguments)), flush=True)


if __name__ == "__main__":
    main()
