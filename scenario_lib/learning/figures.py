"""What a rollout is compared by: voltages, service, power and wear, as one row of figures."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from scenario_lib.feeders.experiment import Experiment
from scenario_lib.metrics.voltage import measure_voltages
from scenario_lib.scenario.curves import Array
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.rollout import Rollout

_W_PER_KW = 1e3


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one rollout, over all its seconds, sites and models.

    Attributes:
        integral_pu_s: Sum over time and bus-phases of the distance outside the limits (pu s).
        violation_time_s: Seconds with any bus-phase outside.
        worst_v_min_pu, worst_v_max_pu: Lowest and highest voltage.
        throughput_tokens_per_s: Mean output of all replicas (1/s), by the logistic throughput fits.
        throughput_relative: The same, relative to the same replicas at their largest feasible batches.
        itl_p99_s: 99th percentile of the inter-token latency (s) over seconds and models; None if nothing ran.
        itl_p99_over_deadline: The same of the latency relative to its model's deadline.
        mean_power_kw: Mean power of all sites and phases (kW).
        batch_changes: How often a model's batch changed.
    """

    integral_pu_s: float
    violation_time_s: float
    worst_v_min_pu: float
    worst_v_max_pu: float
    throughput_tokens_per_s: float
    throughput_relative: float
    itl_p99_s: float | None
    itl_p99_over_deadline: float | None
    mean_power_kw: float
    batch_changes: int


def figures_of(rollout: Rollout, experiment: Experiment, assets: Assets) -> Figures:
    """The figures of a rollout on an experiment's feeder."""
    band = experiment.limits
    voltages = asdict(measure_voltages(rollout.voltages_pu, band.v_min_pu, band.v_max_pu))
    specs = [experiment.spec(label) for _, label in rollout.model_labels]
    deadlines = np.array([spec.itl_deadline_s for spec in specs])
    largest = np.broadcast_to([max(spec.feasible_batch_sizes) for spec in specs], rollout.batch_sizes.shape)
    tokens = _mean_tokens_per_s(rollout, rollout.batch_sizes, assets)
    most_tokens = _mean_tokens_per_s(rollout, largest, assets)
    return Figures(
        integral_pu_s=voltages["integral_pu_s"],
        violation_time_s=voltages["violation_time_s"],
        worst_v_min_pu=voltages["worst_v_min_pu"],
        worst_v_max_pu=voltages["worst_v_max_pu"],
        throughput_tokens_per_s=tokens,
        throughput_relative=tokens / most_tokens if most_tokens > 0 else 0.0,
        itl_p99_s=_p99(rollout.itl_s),
        itl_p99_over_deadline=_p99(rollout.itl_s / deadlines),
        mean_power_kw=float(np.mean(np.sum(rollout.power_w, axis=(1, 2)))) / _W_PER_KW,
        batch_changes=int(np.count_nonzero(np.diff(rollout.batch_sizes, axis=0))),
    )


def _mean_tokens_per_s(rollout: Rollout, batch_sizes: NDArray[np.int64], assets: Assets) -> float:
    """Mean over time of the output of all replicas, were they at these batch sizes, shape (T, M)."""
    total = 0.0
    for column, (_, label) in enumerate(rollout.model_labels):
        fit = assets.logistic.throughput(label)
        sizes, positions = np.unique(batch_sizes[:, column], return_inverse=True)
        of_replica = np.array([float(fit.eval(int(size))) for size in sizes])[positions]
        total += float(np.mean(of_replica * rollout.active_replicas[:, column]))
    return total


def _p99(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.quantile(known, 0.99)) if known.size else None
