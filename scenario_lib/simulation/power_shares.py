"""Who draws a site's power: the facility, each model, the training job. Made for pictures, not for measures.

A rollout records the power of each site as a whole. The facility's share and the training job's are exact; a model's
is its mean power per GPU at the batch size in use times the GPUs in use, which leaves out how servers scatter. With
hundreds of servers that is within a few per cent of the site's power at every second.
"""

from dataclasses import dataclass

import numpy as np

from scenario_lib.feeders.experiment import Experiment
from scenario_lib.scenario.curves import Array
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.datacenters import training_schedule
from scenario_lib.simulation.rollout import Rollout

_KW_PER_W = 1e-3
_PHASES = 3


@dataclass(frozen=True, slots=True)
class PowerShares:
    """Power of one site by what draws it (kW, all phases together), each of shape (T,)."""

    facility_kw: Array
    model_kw: dict[str, Array]
    training_kw: Array
    total_kw: Array


def power_shares(
    rollout: Rollout, scenario: Scenario, experiment: Experiment, assets: Assets
) -> dict[str, PowerShares]:
    """Shares of every site of a rollout, by site name in the scenario's order."""
    seconds = len(rollout.power_w)
    training_kw = _training_kw(scenario, assets, seconds)
    shares = {}
    for position, site in enumerate(scenario.sites):
        columns = [i for i, (name, _) in enumerate(rollout.model_labels) if name == site.name]
        shares[site.name] = PowerShares(
            facility_kw=np.full(seconds, site.base_kw_per_phase * _PHASES),
            model_kw={rollout.model_labels[i][1]: _model_kw(rollout, i, experiment, assets) for i in columns},
            training_kw=training_kw if position == 0 else np.zeros(seconds),
            total_kw=rollout.power_w[:, position].sum(axis=1) * _KW_PER_W,
        )
    return shares


def _model_kw(rollout: Rollout, column: int, experiment: Experiment, assets: Assets) -> Array:
    label = rollout.model_labels[column][1]
    batches, level = np.unique(rollout.batch_sizes[:, column], return_inverse=True)
    templates = assets.inference.power_templates
    w_per_gpu = np.array([float(np.mean(templates.template(label, int(batch)))) for batch in batches])[level]
    gpus = rollout.active_replicas[:, column] * experiment.spec(label).gpus_per_replica
    return np.asarray(w_per_gpu * gpus * _KW_PER_W)


def _training_kw(scenario: Scenario, assets: Assets, seconds: int) -> Array:
    total_w = np.zeros(seconds)
    for run, t_start_s, t_end_s in training_schedule(scenario.training_run, assets):
        total_w += [run.eval_power(float(second), t_start_s, t_end_s) for second in range(seconds)]
    return total_w * _KW_PER_W
