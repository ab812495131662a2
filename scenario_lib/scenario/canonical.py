"""A scenario's complete form, its digest, and the way back.

The contract form leaves out what openg2g's example never varies (power factors); the resolved form has everything,
so that a scenario can be rebuilt from its numbers alone. Digests cover drawn numbers, never values computed with
sines or exponentials, and are therefore equal on every machine.
"""

from typing import Any

from scenario_lib.feeders.bus_power import BusPower, PowerSeries
from scenario_lib.feeders.canonical import digest_of
from scenario_lib.feeders.checks import ANY, positive
from scenario_lib.feeders.experiment import TrainingJob
from scenario_lib.feeders.sites import ModelDeployment, Ramp, Site
from scenario_lib.scenario.model import STORED, Overlay, Scenario, ScenarioParams, ScenarioPower
from scenario_lib.scenario.profiles import (
    AnalyticLoad,
    AnalyticPV,
    Cloud,
    Noise,
    Profile,
    SampledLoad,
    SampledPV,
    SeriesProfile,
)
from scenario_lib.scenario.shapes import LOAD_SHAPES, PV_SHAPES

_SHIFT_S, _WARP = ANY, positive()


def resolve(scenario: Scenario) -> dict[str, Any]:
    """All numbers of a scenario as plain values, ready for JSON.

    The order of sites is spelled out, because it matters (the training job runs at the first) and a JSON object has
    none: canonical JSON sorts `dc_sites`.
    """
    return {
        **scenario.to_dict(),
        "site_order": [site.name for site in scenario.sites],
        "pv_power_factors": [system.power_factor for system in scenario.pv_systems],
        "tvl_power_factors": [load.power_factor for load in scenario.tvl],
    }


def scenario_digest(scenario: Scenario) -> str:
    """SHA-256 of the resolved form, the same on every machine."""
    return digest_of(resolve(scenario))


def scenario_from_resolved(resolved: dict[str, Any]) -> Scenario:
    """The scenario that `resolve` wrote down, labelled as made of stored numbers.

    Raises:
        KeyError, TypeError, InvalidSettingError: The numbers are not those of a scenario.
    """
    params = dict(resolved["params"])
    overlay = params.pop("training_overlay")
    return Scenario(
        seed=resolved["seed"],
        sites=tuple(_site(name, resolved["dc_sites"][name]) for name in resolved["site_order"]),
        pv_systems=tuple(
            _power(entry, factor, _pv_profile(index, entry))
            for index, (entry, factor) in enumerate(
                zip(resolved["pv_systems"], resolved["pv_power_factors"], strict=True)
            )
        ),
        tvl=tuple(
            _power(entry, factor, _load_profile(index, entry))
            for index, (entry, factor) in enumerate(zip(resolved["tvl"], resolved["tvl_power_factors"], strict=True))
        ),
        params=ScenarioParams(**params, training_overlay=None if overlay is None else _overlay(overlay)),
        origin=STORED,
    )


def _site(name: str, site: dict[str, Any]) -> Site:
    fields = dict(site)
    models = tuple(
        ModelDeployment(
            label=model["label"],
            replicas=model["initial_replicas"],
            initial_batch_size=model["initial_batch_size"],
            ramps=tuple(Ramp(*ramp) for ramp in model["ramps"]),
        )
        for model in fields.pop("models")
    )
    return Site(name=name, models=models, **fields)


def _overlay(overlay: dict[str, Any]) -> Overlay:
    job = TrainingJob(
        n_gpus=overlay["n_gpus"],
        target_peak_w_per_gpu=overlay["target_peak_W_per_gpu"],
        t_start_s=overlay["t_start"],
        t_end_s=overlay["t_end"],
    )
    return Overlay(job, overlay["intensity"])


def _power(entry: dict[str, Any], power_factor: float, profile: Profile) -> ScenarioPower:
    # A drawn element has the bounds and the name of the experiment's; a stored one is held to the same.
    BusPower(entry["bus"], entry["bus_kv"], entry["peak_kw"], power_factor)
    _SHIFT_S.require("peak_t_shift_s", entry["peak_t_shift_s"])
    _WARP.require("time_warp", entry["time_warp"])
    return ScenarioPower(
        bus=entry["bus"],
        bus_kv=entry["bus_kv"],
        peak_kw_per_phase=entry["peak_kw"],
        power_factor=power_factor,
        t_shift_s=entry["peak_t_shift_s"],
        time_warp=entry["time_warp"],
        profile=profile,
    )


def _pv_profile(index: int, entry: dict[str, Any]) -> Profile:
    params = dict(entry["profile_params"] or {})
    if entry["profile_kind"] == SampledPV.kind:
        clouds = tuple(Cloud(*cloud) for cloud in params.pop("clouds"))
        noise, shape = _noise(params), PV_SHAPES[params.pop("shape")]
        return SampledPV(shape(**params), clouds, noise)
    return _series(params) if entry["profile_kind"] == SeriesProfile.kind else AnalyticPV(index)


def _load_profile(index: int, entry: dict[str, Any]) -> Profile:
    params = dict(entry["profile_params"] or {})
    if entry["profile_kind"] == SampledLoad.kind:
        noise, shape = _noise(params), LOAD_SHAPES[params.pop("shape")]
        return SampledLoad(shape(**params), noise)
    return _series(params) if entry["profile_kind"] == SeriesProfile.kind else AnalyticLoad(index)


def _noise(params: dict[str, Any]) -> Noise:
    return Noise(amp=params.pop("noise_amp"), seed=params.pop("noise_seed"))


def _series(params: dict[str, Any]) -> SeriesProfile:
    return SeriesProfile(PowerSeries(tuple(params["time_s"]), tuple(params["kw_per_phase"])), params["scale"])
