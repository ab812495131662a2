"""Made-up rollouts: known numbers, no simulation."""

import numpy as np

from scenario_lib.simulation.rollout import Rollout


def sample_rollout(policy: str = "ofo", seconds: int = 3600, sites: tuple[str, ...] = ("hall",)) -> Rollout:
    """Two buses, one dip to 0.90 pu at second 1234 on the second; two models a site, whose batch halves at noon."""
    voltages = np.full((seconds, 4), 1.0)
    voltages[:, 3] = 0.96
    voltages[1234 % seconds, 3] = 0.90
    labels = tuple((site, model) for site in sites for model in ("small", "large"))
    batches = np.full((seconds, len(labels)), 128)
    batches[seconds // 2 :] = 64
    return Rollout(
        policy=policy,
        bus_phases=(("near", 1), ("near", 2), ("Far", 1), ("Far", 2)),
        site_names=sites,
        model_labels=labels,
        voltages_pu=voltages,
        power_w=np.full((seconds, len(sites), 3), 1e6),
        batch_sizes=batches,
        active_replicas=np.ones_like(batches),
        itl_s=np.full(batches.shape, 0.05),
    )
