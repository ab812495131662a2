"""What `engines.py` measures, one function a figure; every one returns raw seconds, lowest level of aggregation."""

import resource
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from openg2g.grid.opendss import dss
from plain_openg2g import plain_integral_pu_s

from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.metrics.voltage import measure_voltages, penalty_trace
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import Assets, load_assets
from scenario_lib.simulation.compiled.batch import BatchSimulator
from scenario_lib.simulation.compiled.circuit import start_state
from scenario_lib.simulation.compiled.episode import window_of
from scenario_lib.simulation.compiled.power_flow import OPENDSS, rebuild_admittance, set_powers, solve_power_flow
from scenario_lib.simulation.compiled.rollout import CompiledScenario, compile_scenario, measure_rollout, run_compiled
from scenario_lib.simulation.rollout import build_simulation, run_reference

POLICIES = ("none", "ofo")


@dataclass(frozen=True, slots=True)
class Bench:
    """One feeder, its data loaded, and the settings that candidates are drawn with."""

    experiment: Experiment
    assets: Assets
    settings: RandomizationSettings

    @classmethod
    def of(cls, system: str) -> "Bench":
        experiment = load_experiment(system)
        settings = RandomizationSettings(randomize_ramps=experiment.randomize_ramps_default)
        return cls(experiment, load_assets(experiment), settings)

    def draw(self, index: int) -> Scenario:
        """The scenario of candidate `index`."""
        return randomize_scenario(index * 1000 + 7, experiment=self.experiment, settings=self.settings)


def timed(action: Callable[[], object]) -> float:
    """Duration of one call (s)."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def cpu_s(action: Callable[[], list[float]]) -> tuple[list[float], float]:
    """What an action returns, and the processor time it took (s), which other programs disturb less."""
    started = time.process_time()
    return action(), time.process_time() - started


def plain_rollouts_s(bench: Bench, scenario: Scenario) -> list[float]:
    """Baseline and OFO on openg2g as it is."""
    return [timed(lambda p=p: plain_integral_pu_s(scenario, bench.experiment, bench.assets, p)) for p in POLICIES]


def reference_rollouts_s(bench: Bench, scenario: Scenario) -> list[float]:
    """Baseline and OFO on our reference engine, measures included."""

    def run(policy: str) -> None:
        rollout = run_reference(scenario, bench.experiment, bench.assets, policy)
        measure_voltages(rollout.voltages_pu, 0.95, 1.05)
        penalty_trace(rollout.voltages_pu, 0.95, 1.05)

    return [timed(lambda p=p: run(p)) for p in POLICIES]


def compiled_parts_s(bench: Bench, index: int) -> list[float]:
    """A whole candidate on the compiled engine: draw, tables, baseline, OFO, measures."""
    kept: dict[str, object] = {}

    def keep(name: str, action: Callable[[], object]) -> float:
        return timed(lambda: kept.__setitem__(name, action()))

    return [
        keep("scenario", lambda: bench.draw(index)),
        keep("compiled", lambda: compile_scenario(kept["scenario"], bench.experiment, bench.assets)),
        keep("none", lambda: run_compiled(kept["compiled"], "none")),
        keep("ofo", lambda: run_compiled(kept["compiled"], "ofo")),
        timed(lambda: [measure_rollout(kept[p].voltages_pu, 0.95, 1.05) for p in POLICIES]),
    ]


def compiled_solve_s(compiled: CompiledScenario, power_w: np.ndarray, seconds: Iterable[int]) -> tuple[float, float]:
    """One power flow of a baseline as a call from Python (s), and its iterations, on average."""
    network, state = compiled.circuit.network, start_state(compiled.circuit.network)
    iterations, spent = [], []
    for second in seconds:
        set_powers(network, state, compiled.load_arrays, second, power_w[second])
        if second == 0:
            rebuild_admittance(network, state)
        started = time.perf_counter()
        iterations.append(solve_power_flow(network, state, OPENDSS))
        spent.append(time.perf_counter() - started)
    return float(np.median(spent)), float(np.mean(iterations))


def opendss_solve_s(bench: Bench, scenario: Scenario, n_seconds: int = 300) -> float:
    """The bare OpenDSS solve within the reference baseline (s), median."""
    simulation = build_simulation(scenario, bench.experiment, bench.assets, "none", n_seconds)
    spent: list[float] = []
    solve = type(simulation.grid)._solve

    def watched(_grid: object) -> None:
        started = time.perf_counter()
        dss.Solution.SolveNoControl()
        spent.append(time.perf_counter() - started)

    type(simulation.grid)._solve = watched
    try:
        run_reference(scenario, bench.experiment, bench.assets, "none", n_seconds)
    finally:
        type(simulation.grid)._solve = solve
    return float(np.median(spent[1:]))


_BURST = 10
"""Steps that are timed together; batch sizes change between bursts."""


def lockstep_s(bench: Bench, n_scenarios: int, threads: int, n_steps: int) -> float:
    """One step of N scenarios with random batch sizes (s), in the fastest burst: other programs disturb the others."""
    scenarios = (
        compile_scenario(bench.draw(i), bench.experiment, bench.assets, n_steps + 1) for i in range(n_scenarios)
    )
    simulator = BatchSimulator.of(map(window_of, scenarios), threads=threads)
    rng = np.random.default_rng(0)
    n_models, n_levels = simulator.batch_sizes.shape
    levels = rng.integers(0, n_levels, (n_steps // _BURST, n_scenarios, n_models))
    actions = simulator.batch_sizes[np.arange(n_models), levels]
    simulator.step(actions[0])

    def burst(action: np.ndarray) -> None:
        for _ in range(_BURST):
            simulator.step(action)

    return min(timed(lambda action=action: burst(action)) for action in actions) / _BURST


def _start(system: str) -> None:
    global _BENCH
    _BENCH = Bench.of(system)


def _candidate(index: int) -> float:
    """Measure one candidate in a worker; returns its peak memory so far (MB)."""
    compiled_parts_s(_BENCH, index)
    return peak_memory_mb()


def peak_memory_mb() -> float:
    """Peak resident memory of this process (MB); `getrusage` would count the parent's at the start as well."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1024


def workers_s(system: str, n_candidates: int, jobs: int) -> tuple[float, float, float]:
    """Seconds per candidate with some workers, their start included; peak memory of a worker at half and end (MB)."""
    started = time.perf_counter()
    with ProcessPoolExecutor(jobs, get_context("spawn"), _start, (system,)) as pool:
        peaks = list(pool.map(_candidate, range(n_candidates)))  # larger shares would leave one waiting at the end
    seconds = (time.perf_counter() - started) / n_candidates
    return seconds, max(peaks[: n_candidates // 2]), max(peaks)
