"""Who draws a site's power: shares that add up."""

import numpy as np
import pytest

from scenario_lib.feeders.experiment_file import experiment_names, load_experiment
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import Engine, simulator
from scenario_lib.simulation.rollout import power_shares


@pytest.mark.parametrize("system", experiment_names())
def test_shares_add_up_to_the_recorded_power_at_every_second(system: str) -> None:
    experiment = load_experiment(system)
    assets = load_assets(experiment)
    settings = RandomizationSettings(ramp_up_prob=0.5)
    scenario = randomize_scenario(7, experiment=experiment, settings=settings)
    rollout = simulator(scenario, experiment, assets, Engine()).run("ofo").rollout
    shares = power_shares(rollout, scenario, experiment, assets)
    assert list(shares) == [site.name for site in scenario.sites]
    for position, (site, share) in enumerate(zip(scenario.sites, shares.values(), strict=True)):
        assert list(share.model_kw) == [model.label for model in site.models]
        assert np.allclose(share.total_kw, rollout.power_w[:, position].sum(axis=1) / 1000)
        assert np.all(share.facility_kw == 3 * site.base_kw_per_phase)
        added = share.facility_kw + sum(share.model_kw.values()) + share.training_kw
        assert np.max(np.abs(added / share.total_kw - 1)) < 0.015
    job = scenario.training_run
    running = shares[scenario.sites[0].name].training_kw > 0
    if job is None:
        assert not running.any()
    else:
        seconds = np.flatnonzero(running)
        assert abs(seconds[0] - job.t_start_s) <= 1
        assert abs(seconds[-1] - job.t_end_s) <= 1
