"""The scenario: one simulated hour as drawn, in numbers only.

`Scenario.to_dict` is the contract with libraries that openg2g's example writes; `canonical.py` adds what that form
leaves out and makes the digest.

A scenario's complete form, its digest, and the way back.

The contract form leaves out what openg2g's example never varies (power factors); the resolved form has everything,
so that a scenario can be rebuilt from its numbers alone. Digests cover drawn numbers, never values computed with
sines or exponentials, and are therefore equal on every machine.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scenario_lib._arrays import Floats
from scenario_lib._files import digest_of
from scenario_lib._values import ANY, positive
from scenario_lib.feeders.experiment import TrainingJob
from scenario_lib.feeders.sites import BusPower, ModelDeployment, PowerSeries, Ramp, Site
from scenario_lib.scenario.profiles import (
    LOAD_SHAPES,
    PV_SHAPES,
    AnalyticLoad,
    AnalyticPV,
    Cloud,
    Noise,
    Profile,
    SampledLoad,
    SampledPV,
    SeriesProfile,
)

DRAWN, STORED = "drawn", "stored numbers"
"""Where a scenario's numbers come from."""


@dataclass(frozen=True, slots=True)
class ScenarioPower:
    """A PV system or a load of one scenario: where it is, its peak, and its profile in time.

    Attributes:
        peak_kw_per_phase: Drawn peak (kW per phase).
        t_shift_s, time_warp: The profile is evaluated at (t - t_shift_s) / time_warp, unless it is a sampled one.
    """

    bus: str
    bus_kv: float
    peak_kw_per_phase: float
    power_factor: float
    t_shift_s: float
    time_warp: float
    profile: Profile

    def kw_per_phase(self, t: ArrayLike) -> Floats:
        """Power (kW per phase) at times t (s), an array of the shape of t; generation is positive for PV systems."""
        times = np.asarray(t, float)
        if self.profile.follows_time_shift:
            times = (times - self.t_shift_s) / self.time_warp
        return self.profile.kw_per_phase(times, self.peak_kw_per_phase)

    def to_dict(self) -> dict[str, Any]:
        """The stored form; `peak_kw` there is per phase too."""
        return {
            "bus": self.bus,
            "bus_kv": self.bus_kv,
            "peak_kw": self.peak_kw_per_phase,
            "peak_t_shift_s": self.t_shift_s,
            "time_warp": self.time_warp,
            "profile_kind": self.profile.kind,
            "profile_params": self.profile.params(),
        }


@dataclass(frozen=True, slots=True)
class Overlay:
    """The training overlay as drawn: the job and the factor on its peak power."""

    job: TrainingJob
    intensity: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "n_gpus": self.job.n_gpus,
            "target_peak_W_per_gpu": self.job.target_peak_w_per_gpu,
            "intensity": self.intensity,
            "t_start": self.job.t_start_s,
            "t_end": self.job.t_end_s,
        }


@dataclass(frozen=True, slots=True)
class ScenarioParams:
    """The draws that concern the scenario as a whole; names as libraries store them."""

    pv_scale: float
    load_scale: float
    pv_t_shift_s: float
    tvl_t_shift_s: float
    pv_warp: float
    tvl_warp: float
    training_overlay: Overlay | None
    initial_batch_sizes: dict[str, int]
    randomization_profile: bool
    tvl_profile_kind: str
    tvl_profile_params: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        overlay = self.training_overlay
        return {
            "pv_scale": self.pv_scale,
            "load_scale": self.load_scale,
            "pv_t_shift_s": self.pv_t_shift_s,
            "tvl_t_shift_s": self.tvl_t_shift_s,
            "pv_warp": self.pv_warp,
            "tvl_warp": self.tvl_warp,
            "training_overlay": None if overlay is None else overlay.to_dict(),
            "initial_batch_sizes": dict(self.initial_batch_sizes),
            "randomization_profile": self.randomization_profile,
            "tvl_profile_kind": self.tvl_profile_kind,
            "tvl_profile_params": self.tvl_profile_params,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Scenario:
    """One simulated hour on one feeder, a pure function of (experiment, settings, seed).

    Attributes:
        sites: Datacenter sites with the drawn ramps, seeds and initial batch sizes, in the experiment's order.
        pv_systems, tvl: PV systems and time-varying loads, in the experiment's order.
        params: Draws that concern the scenario as a whole.
        origin: "drawn" from the seed, or "stored numbers" of a library; a label, which equality leaves out.
    """

    seed: int
    sites: tuple[Site, ...]
    pv_systems: tuple[ScenarioPower, ...]
    tvl: tuple[ScenarioPower, ...]
    params: ScenarioParams
    origin: str = field(default=DRAWN, compare=False)

    def __repr__(self) -> str:
        job = "no training job" if self.training_run is None else "a training job"
        return (
            f"Scenario(seed={self.seed}, {self.origin}: sites {', '.join(self.dc_sites)}; {len(self.pv_systems)} PV "
            f"systems x {self.params.pv_scale:.3g}, {len(self.tvl)} loads x {self.params.load_scale:.3g}, {job})"
        )

    @property
    def dc_sites(self) -> dict[str, Site]:
        """The sites by name."""
        return {site.name: site for site in self.sites}

    @property
    def training_run(self) -> TrainingJob | None:
        """The training job on the first site, if there is one."""
        overlay = self.params.training_overlay
        return None if overlay is None else overlay.job

    def to_dict(self) -> dict[str, Any]:
        """The scenario as plain values, as libraries and the command line show it."""
        job = self.training_run
        return {
            "seed": self.seed,
            "dc_sites": {site.name: _site_to_dict(site) for site in self.sites},
            "pv_systems": [system.to_dict() for system in self.pv_systems],
            "tvl": [load.to_dict() for load in self.tvl],
            "training_run": None if job is None else [_job_to_dict(job)],
            "params": self.params.to_dict(),
        }


def _site_to_dict(site: Site) -> dict[str, Any]:
    return {
        "bus": site.bus,
        "bus_kv": site.bus_kv,
        "base_kw_per_phase": site.base_kw_per_phase,
        "total_gpu_capacity": site.total_gpu_capacity,
        "seed": site.seed,
        "connection_type": site.connection_type,
        "models": [
            {
                "label": model.label,
                "initial_batch_size": model.initial_batch_size,
                "initial_replicas": model.replicas,
                "ramps": [[ramp.target_replicas, ramp.t_start_s, ramp.t_end_s] for ramp in model.ramps],
            }
            for model in site.models
        ],
    }


def _job_to_dict(job: TrainingJob) -> dict[str, Any]:
    return {
        "n_gpus": job.n_gpus,
        "target_peak_W_per_gpu": job.target_peak_w_per_gpu,
        "t_start": job.t_start_s,
        "t_end": job.t_end_s,
    }


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
