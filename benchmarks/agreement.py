"""Both engines on many seeds: which decisions of OFO and which seconds in violation differ, and why.

    python benchmarks/agreement.py --system ieee123 --seeds 0 100 --ramp-up-prob 0.5

Runs baseline and OFO of every seed on both; none is left out. Prints every case that differs as it is found, and one
line of JSON per system. Takes 3 to 8 s a seed, nearly all of it for the reference engine.
"""

import argparse
import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scenario_lib.errors import PowerFlowError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import Scenario
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.criteria import ScreeningCriteria, as_screened, judge
from scenario_lib.simulation.agreement import Agreement, at_a_limit, compare_ofo
from scenario_lib.simulation.assets import Assets, load_assets
from scenario_lib.simulation.engines import COMPILED, REFERENCE, Engine, Simulated, simulator

POLICIES = ("none", "ofo")
Runs = dict[str, Simulated]


@dataclass(frozen=True, slots=True)
class Pair:
    """A scenario on both engines.

    Attributes:
        apart: Seconds in violation on one engine only, of both rollouts.
        at_limit: Whether some voltage lies at a limit in each of these.
        integral: Largest difference of an integral, relative where that is smaller (pu s).
    """

    agreement: Agreement
    apart: int
    at_limit: int
    seconds_near_a_limit: int
    integral: float
    verdicts_equal: bool


@dataclass(frozen=True, slots=True)
class Setup:
    """What is played on both engines, and on which power traces; None means the shipped ones."""

    experiment: Experiment
    settings: RandomizationSettings
    specs_dir: Path | None

    def scenario(self, seed: int) -> Scenario:
        return randomize_scenario(seed, experiment=self.experiment, settings=self.settings)

    def assets(self) -> Assets:
        return load_assets(self.experiment, self.specs_dir)


def run(setup: Setup, seed: int) -> tuple[Runs | str, Runs | str]:
    """The rollouts of the two engines, or how each of them failed."""
    assets, scenario = setup.assets(), setup.scenario(seed)

    def on(engine: str) -> Runs | str:
        try:
            ready = simulator(scenario, setup.experiment, assets, Engine(engine))
            return {policy: ready.run(policy) for policy in POLICIES}
        except PowerFlowError as error:
            return str(error)

    return on(COMPILED), on(REFERENCE)


def compare(setup: Setup, seed: int, runs: tuple[Runs, Runs]) -> Pair:
    """What differs between the rollouts of one seed."""
    ours, theirs = runs
    experiment = setup.experiment
    rollouts = ours["ofo"].rollout, theirs["ofo"].rollout
    apart = {p: (ours[p].penalties > 0) != (theirs[p].penalties > 0) for p in POLICIES}
    near = {p: at_a_limit(theirs[p].rollout.voltages_pu, experiment.limits) for p in POLICIES}
    integrals = [(ours[p].measures.integral_pu_s, theirs[p].measures.integral_pu_s) for p in POLICIES]
    verdicts = [judge(each["none"].measures, each["ofo"].measures, ScreeningCriteria()) for each in runs]
    return Pair(
        agreement=compare_ofo(setup.scenario(seed), experiment, setup.assets(), *rollouts),
        apart=sum(int(np.count_nonzero(apart[p])) for p in POLICIES),
        at_limit=sum(int(np.count_nonzero(apart[p] & near[p])) for p in POLICIES),
        seconds_near_a_limit=sum(int(np.count_nonzero(near[p])) for p in POLICIES),
        integral=max(abs(a - b) / max(abs(b), 1.0) for a, b in integrals),
        verdicts_equal=verdicts[0] is verdicts[1],
    )


def report(system: str, seed: int, pair: Pair) -> None:
    """Print what differs, if anything does."""
    for flip in pair.agreement.flips:
        print(f"{system} seed {seed}: {flip}; {pair.agreement.seconds_apart} s differ", flush=True)
    if pair.apart:
        print(
            f"{system} seed {seed}: {pair.apart} s in violation on one engine only, {pair.at_limit} of them at a limit"
        )
    if not pair.verdicts_equal:
        print(f"{system} seed {seed}: the verdicts differ", flush=True)


def figures(system: str, setup: Setup, seeds: range) -> dict[str, object]:
    """Counts over all seeds."""
    pairs: list[Pair] = []
    failures: Counter[str] = Counter()
    for seed in seeds:
        ours, theirs = run(setup, seed)
        if isinstance(ours, str) or isinstance(theirs, str):
            failures["both alike" if ours == theirs else "differently"] += 1
            print(f"{system} seed {seed}: compiled {ours}; reference {theirs}", flush=True)
            continue
        pairs.append(compare(setup, seed, (ours, theirs)))
        report(system, seed, pairs[-1])
    flips = [flip for pair in pairs for flip in pair.agreement.flips]
    return {
        "system": system,
        "scenarios": len(pairs),
        "did_not_converge": dict(failures),
        "ofo_rollouts_with_the_same_decisions": sum(not pair.agreement.flips for pair in pairs),
        "flips": len(flips),
        "flips_explained": sum(flip.explained for flip in flips),
        "seconds_near_a_limit": sum(pair.seconds_near_a_limit for pair in pairs),
        "seconds_in_violation_on_one_engine_only": sum(pair.apart for pair in pairs),
        "of_these_at_a_limit": sum(pair.at_limit for pair in pairs),
        "verdicts_equal": sum(pair.verdicts_equal for pair in pairs),
        "largest_voltage_difference_pu": max(pair.agreement.voltage_pu for pair in pairs),
        "largest_integral_difference": max(pair.integral for pair in pairs),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20), help="first seed, and the one after the last")
    parser.add_argument("--ramp-up-prob", type=float, help="instead of the default")
    parser.add_argument("--specs-dir", type=Path, help="spec cache in openg2g's layout, instead of the shipped one")
    arguments = parser.parse_args()
    for system in arguments.system or ["ieee13", "ieee34", "ieee123"]:
        experiment = load_experiment(system)
        settings = RandomizationSettings(randomize_ramps=experiment.randomize_ramps_default)
        if arguments.ramp_up_prob is not None:
            settings = replace(settings, ramp_up_prob=arguments.ramp_up_prob)
        print(
            json.dumps(
                figures(system, Setup(as_screened(experiment), settings, arguments.specs_dir), range(*arguments.seeds))
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
