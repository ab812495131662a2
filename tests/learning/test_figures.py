"""Figures of a rollout of two seconds, computed by hand."""

import numpy as np
import pytest

from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.learning.comparison import figures_of
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.rollout import Rollout

LABELS = (("default", "Llama-3.1-8B"), ("default", "Llama-3.1-70B"))


def test_figures_by_hand(specs_dir) -> None:
    experiment = load_experiment("ieee13")
    assets = load_assets(experiment, specs_dir)
    rollout = Rollout(
        policy="none",
        bus_phases=(("671", 1), ("671", 2)),
        site_names=("default",),
        model_labels=LABELS,
        voltages_pu=np.array([[0.94, 1.0], [1.0, 1.07]]),
        power_w=np.array([[[1e6, 1e6, 1e6]], [[2e6, 2e6, 2e6]]]),
        batch_sizes=np.array([[8, 128], [512, 128]]),
        active_replicas=np.array([[10, 2], [10, 0]]),
        itl_s=np.array([[0.02, 0.05], [0.06, np.nan]]),
    )
    figures = figures_of(rollout, experiment, assets)
    assert figures.integral_pu_s == pytest.approx(0.03)
    assert figures.violation_time_s == 2
    assert (figures.worst_v_min_pu, figures.worst_v_max_pu) == (0.94, 1.07)
    small, large = (assets.logistic.throughput(label).eval for _, label in LABELS)
    tokens = (10 * small(8) + 10 * small(512) + 2 * large(128)) / 2
    assert figures.throughput_tokens_per_s == pytest.approx(tokens)
    assert figures.throughput_relative == pytest.approx(tokens / ((20 * small(512) + 2 * large(512)) / 2))
    assert figures.itl_p99_s == pytest.approx(np.quantile([0.02, 0.05, 0.06], 0.99))
    deadlines = [experiment.spec(label).itl_deadline_s for _, label in LABELS]
    ratios = [0.02 / deadlines[0], 0.06 / deadlines[0], 0.05 / deadlines[1]]
    assert figures.itl_p99_over_deadline == pytest.approx(np.quantile(ratios, 0.99))
    assert figures.mean_power_kw == pytest.approx(4500)
    assert figures.batch_changes == 1


def test_a_rollout_in_which_nothing_ran_has_no_latency(specs_dir) -> None:
    experiment = load_experiment("ieee13")
    nothing = Rollout(
        "none",
        (("671", 1),),
        ("default",),
        LABELS,
        np.ones((2, 1)),
        np.zeros((2, 1, 3)),
        np.full((2, 2), 128),
        np.zeros((2, 2), dtype=np.int64),
        np.full((2, 2), np.nan),
    )
    figures = figures_of(nothing, experiment, load_assets(experiment, specs_dir))
    assert (figures.itl_p99_s, figures.itl_p99_over_deadline) == (None, None)
    assert (figures.throughput_tokens_per_s, figures.throughput_relative) == (0.0, 0.0)
