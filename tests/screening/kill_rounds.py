"""Builds whose processes are killed at random moments, and resumed until they end; as a program, many of them.

python tests/screening/kill_rounds.py kills --rounds 100 --seed 0    # real builds, two workers
python tests/screening/kill_rounds.py soak --candidates 300          # memory of one worker
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from build_commands import content, finished_candidates, start

sys.path.insert(0, str(Path(__file__).parents[1]))
from worker_processes import workers_of

VICTIMS = ("worker", "parent", "both")


@dataclass(frozen=True)
class Build:
    """A build that can be started any number of times.

    Attributes:
        measure: Function of `measured_samples` that takes the place of measuring; empty for real candidates.
    """

    candidates: int
    engine: str = "compiled"
    measure: str = ""
    jobs: int = 2

    def start(self, out: Path, *options: object) -> subprocess.Popen:
        command = (
            "build",
            "--no-report",
            "--system",
            "ieee13",
            "--engine",
            self.engine,
            "--candidates",
            self.candidates,
        )
        return start(*command, "--jobs", self.jobs, "--out", out, *options, measure=self.measure)

    def undisturbed(self, out: Path) -> dict[str, bytes]:
        """Files of the library."""
        errors = self.start(out).communicate(timeout=600)[1]
        assert out.exists(), errors
        return content(out)


def kill_round(build: Build, out: Path, rng: np.random.Generator) -> str:
    """One build, disturbed once and brought to its end; gives what was killed, and when.

    The moment is a number of finished candidates, from none to all, and up to a fifth of a second after that: all of
    starting, measuring, writing and publishing is hit.
    """
    victim = VICTIMS[rng.integers(len(VICTIMS))]
    wait_for, delay_s = int(rng.integers(build.candidates + 1)), rng.uniform(0.0, 0.2)
    process = build.start(out)
    while finished_candidates(out) < wait_for and not out.exists() and process.poll() is None:
        time.sleep(0.002)
    time.sleep(delay_s)
    reached = finished_candidates(out)
    if victim != "parent":
        for worker in workers_of(process.pid)[:1]:
            _kill(worker)
    if victim != "worker":
        _kill(process.pid)
    process.communicate(timeout=600)
    if not out.exists():
        errors = build.start(out, "--resume").communicate(timeout=600)[1]
        assert out.exists(), errors
    return f"{victim}, {_moment(reached, build.candidates)}"


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _moment(finished: int, candidates: int) -> str:
    if finished == 0:
        return "before the first candidate, or after publishing"
    return "all candidates finished" if finished == candidates else "between candidates"


def kills(rounds: int, seed: int) -> bool:
    """Print what was killed and how often the library was another one; whether it never was."""
    build, different, counts = Build(candidates=12), 0, Counter()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        expected = build.undisturbed(Path(folder) / "undisturbed")
        for number in range(rounds):
            out = Path(folder) / str(number)
            counts[kill_round(build, out, rng)] += 1
            different += content(out) != expected
    for what, count in sorted(counts.items()):
        print(f"{count:4d}  {what}")
    print(f"{rounds} builds disturbed and resumed, {different} libraries differ from the undisturbed one")
    return different == 0


def soak(candidates: int) -> None:
    """Print the memory of one worker as it measures one candidate after another."""
    from measured_samples import measure_and_weigh

    from scenario_lib.execution.tasks import RunOptions, run_tasks
    from scenario_lib.feeders.experiment_file import load_experiment
    from scenario_lib.scenario.settings import RandomizationSettings
    from scenario_lib.screening.build import MeasureTask
    from scenario_lib.screening.candidate import MeasurePlan
    from scenario_lib.screening.criteria import ScreeningCriteria

    plan = MeasurePlan(load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria(), full_table=True)
    seeds = [1000 * position + 7 for position in range(candidates)]
    outcomes = run_tasks(MeasureTask(plan, measure_and_weigh), seeds, RunOptions(jobs=1))
    memory_mb = [outcome.result for outcome in outcomes]
    for done in range(0, candidates, max(1, candidates // 10)):
        print(f"after {done + 1:4d} candidates {memory_mb[done]:7.1f} MB")
    print(f"after {candidates:4d} candidates {memory_mb[-1]:7.1f} MB")
    slope = np.polyfit(np.arange(candidates // 5, candidates), memory_mb[candidates // 5 :], 1)[0]
    print(f"growth after the first fifth: {1000 * slope:.1f} kB a candidate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("kills", "soak"))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=int, default=300)
    arguments = parser.parse_args()
    if arguments.what == "soak":
        soak(arguments.candidates)
    elif not kills(arguments.rounds, arguments.seed):
        sys.exit(1)


if __name__ == "__main__":
    main()
