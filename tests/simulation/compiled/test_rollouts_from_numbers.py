"""What a scenario made of stored numbers guarantees: its rollouts are equal while numpy's streams are, and only then.

Profiles are in the numbers; server layout, noise and latencies are drawn from the sites' seeds when a rollout starts.
"""

import json

import numpy as np
import pytest

from scenario_lib._files import canonical_json
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import resolve, scenario_from_resolved
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.rollout import compile_scenario, run_compiled

N_SECONDS = 30


def test_rollouts_are_equal_bit_for_bit_until_numpys_stream_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = load_experiment("ieee13")
    assets = load_assets(experiment)
    drawn = randomize_scenario(7, experiment=experiment)
    made = scenario_from_resolved(json.loads(canonical_json(resolve(drawn))))

    def run(scenario):
        return run_compiled(compile_scenario(scenario, experiment, assets, N_SECONDS), "ofo")

    before, after = run(drawn), run(made)
    assert before.voltages_pu.tobytes() == after.voltages_pu.tobytes()
    assert before.power_w.tobytes() == after.power_w.tobytes()
    assert np.array_equal(before.batch_sizes, after.batch_sizes)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: np.random.Generator(np.random.MT19937(seed)))
    moved = run(made)
    assert moved.bus_phases == before.bus_phases
    assert not np.array_equal(moved.power_w, before.power_w), "servers are laid out by numpy's stream"
