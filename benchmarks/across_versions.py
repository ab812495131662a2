"""Do installations with other versions give the same scenarios and traces? `nox` runs this under several of them.

    python benchmarks/across_versions.py measure FILE    # in each installation
    python benchmarks/across_versions.py compare FILE... # the first against the others

Scenario digests have to be equal. Traces are graded: identical, identical within the tolerance of `validate`, or
different, with the first version that differs. Exit code 1 if a scenario differs, or a trace beyond the tolerance.
"""

import argparse
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from scenario_lib.feeders.experiment_file import experiment_names, load_experiment
from scenario_lib.scenario.model import scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import COMPILED, REFERENCE, Engine, simulator

SEEDS = {COMPILED: (7, 1007, 2007, 3007, 4007, 5007), REFERENCE: (7,)}
POLICIES = ("none", "ofo")
TOLERANCE_PU2 = 1e-10
VERSIONS = ("numpy", "numba", "llvmlite", "openg2g", "dss-python-backend", "pandas", "scipy")


def measure(out: Path) -> None:
    """Digests of scenarios, and penalty traces (pu^2) on both engines, into one npz file."""
    scenarios, traces = {}, {}
    for system in experiment_names():
        experiment = load_experiment(system)
        assets = load_assets(experiment)
        for engine, seeds in SEEDS.items():
            for seed in seeds:
                scenario = randomize_scenario(seed, experiment=experiment, settings=RandomizationSettings())
                scenarios[f"{system} {seed}"] = scenario_digest(scenario)
                run = simulator(scenario, experiment, assets, Engine(engine))
                traces |= {f"{engine} {system} {seed} {policy}": run.run(policy).penalties for policy in POLICIES}
    facts = {"versions": _versions(), "scenarios": scenarios}
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(out, facts=np.array(json.dumps(facts)), **traces)


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in VERSIONS}}


def compare(first: Path, others: list[Path]) -> bool:
    """Print how each of the others compares with the first; whether all agree."""
    agree = True
    for other in others:
        (facts, traces), (other_facts, other_traces) = _read(first), _read(other)
        same = facts["scenarios"] == other_facts["scenarios"]
        largest = {name: float(np.abs(other_traces[name] - trace).max()) for name, trace in traces.items()}
        different = sum(difference > 0 for difference in largest.values())
        worst = max(largest.values())
        grade = "identical" if not different else "within tolerance" if worst <= TOLERANCE_PU2 else "DIFFERENT"
        changed = [
            f"{name} {value} -> {other_facts['versions'][name]}"
            for name, value in facts["versions"].items()
            if value != other_facts["versions"][name]
        ]
        print(f"{first.stem} and {other.stem}: {', '.join(changed) or 'equal versions'}")
        print(f"  scenarios {'identical' if same else 'DIFFERENT'} ({len(facts['scenarios'])})")
        print(f"  traces {grade}: {different} of {len(largest)} differ, at most by {worst:.3g} pu^2")
        agree = agree and same and worst <= TOLERANCE_PU2
    return agree


def _read(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    return json.loads(str(arrays.pop("facts"))), arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("measure", "compare"))
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "measure":
        measure(arguments.files[0])
    elif not compare(arguments.files[0], arguments.files[1:]):
        sys.exit(1)


if __name__ == "__main__":
    main()
