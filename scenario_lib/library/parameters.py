"""A scenario as a point: what was drawn for it, as named numbers whose differences mean something.

Left out are seeds (of sites and of noise), which have no distance, and the powers and replicas that follow from what is
here. What a scenario does not have, such as an overlay or a second ramp, is 0.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from scenario_lib.feeders.sites import Site
from scenario_lib.metrics.voltage import Array
from scenario_lib.scenario.model import Scenario, ScenarioPower

_NOT_MEASURED = ("noise_seed", "clouds", "shape")


def parameters(scenario: Scenario) -> dict[str, float]:
    """The drawn parameters by name; times in s, batch sizes as their logarithm to base 2."""
    drawn = scenario.params
    named = {
        "pv_scale": drawn.pv_scale,
        "load_scale": drawn.load_scale,
        "pv_t_shift_s": drawn.pv_t_shift_s,
        "tvl_t_shift_s": drawn.tvl_t_shift_s,
        "pv_warp": drawn.pv_warp,
        "tvl_warp": drawn.tvl_warp,
    }
    named |= dict(_overlay(scenario))
    for site in scenario.sites:
        named |= dict(_site(site))
    for kind, elements in (("pv", scenario.pv_systems), ("load", scenario.tvl)):
        for index, element in enumerate(elements):
            named |= dict(_profile(f"{kind}[{index}]", element))
    return named


def _overlay(scenario: Scenario) -> Iterator[tuple[str, float]]:
    overlay = scenario.params.training_overlay
    if overlay is not None:
        job = overlay.job
        yield "overlay", 1.0
        yield "overlay.n_gpus", float(job.n_gpus)
        yield "overlay.intensity", overlay.intensity
        yield "overlay.t_start_s", job.t_start_s
        yield "overlay.duration_s", job.t_end_s - job.t_start_s


def _site(site: Site) -> Iterator[tuple[str, float]]:
    for model in site.models:
        yield f"{site.name}.{model.label}.batch_log2", math.log2(model.initial_batch_size)
    # All models of a site ramp together; the one with most replicas tells best by how much.
    largest = max(site.models, key=lambda model: model.replicas)
    yield f"{site.name}.ramps", float(len(largest.ramps))
    for index, ramp in enumerate(largest.ramps):
        yield f"{site.name}.ramp[{index}].fraction", ramp.target_replicas / largest.replicas
        yield f"{site.name}.ramp[{index}].t_start_s", ramp.t_start_s
        yield f"{site.name}.ramp[{index}].duration_s", ramp.t_end_s - ramp.t_start_s


def _profile(name: str, element: ScenarioPower) -> Iterator[tuple[str, float]]:
    drawn = element.profile.params() or {}
    if "shape" in drawn:
        yield f"{name}.shape={drawn['shape']}", 1.0
    for key, value in drawn.items():
        if key not in _NOT_MEASURED and isinstance(value, int | float):
            yield f"{name}.{key}", float(value)
    for index, (centre_s, half_width_s, depth) in enumerate(sorted(drawn.get("clouds", ()))):
        yield f"{name}.cloud[{index}].centre_s", centre_s
        yield f"{name}.cloud[{index}].half_width_s", half_width_s
        yield f"{name}.cloud[{index}].depth", depth


def standardised(first: Sequence[dict[str, float]], second: Sequence[dict[str, float]]) -> tuple[Array, Array]:
    """Two sets of points in units of the standard deviation that each parameter has over both.

    Returns:
        Arrays of shape (records, P), P counting the parameters that vary at all.
    """
    names = sorted({name for point in (*first, *second) for name in point})
    points = np.array([[point.get(name, 0.0) for name in names] for point in (*first, *second)], float)
    deviation = points.std(axis=0)
    # A sum of equal numbers may be off by its last bit, which is not variation.
    varies = deviation > 1e-12 * np.maximum(1.0, np.abs(points).max(axis=0))
    scaled = (points[:, varies] - points[:, varies].mean(axis=0)) / deviation[varies]
    return scaled[: len(first)], scaled[len(first) :]
