"""The digest of one rollout; as a program it prints that of the rollout which its argument names, in JSON."""

import hashlib
import json
import sys

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.rollout import run_reference


def digest(system: str, specs_dir: str, seed: int, policy: str, n_steps: int) -> str:
    experiment = load_experiment(system)
    scenario = randomize_scenario(seed, experiment=experiment)
    rollout = run_reference(scenario, experiment, load_assets(experiment, specs_dir), policy, n_steps)
    arrays = (rollout.voltages_pu, rollout.power_w, rollout.batch_sizes, rollout.itl_s)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


if __name__ == "__main__":
    print(digest(*json.loads(sys.argv[1])))
