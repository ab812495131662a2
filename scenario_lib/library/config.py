"""The `config` of `metadata.json`: the contract with openg2g's example, read and written.

There the sites come from the experiment named by `system`, PV systems and loads from their stored bases, the overlay
from `training_base`, and the settings from `randomize_kwargs`.
"""

from dataclasses import replace
from typing import Any

from scenario_lib.errors import LibraryError, ScenarioLibError
from scenario_lib.feeders.bus_power import BusPower, PVSystem, TimeVaryingLoad
from scenario_lib.feeders.catalogue import shipped_experiment
from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.settings import RandomizationSettings

CONFIG_BANDS = ("min_recovery_frac", "max_recovery_frac", "min_baseline_integral")
"""Criteria of the screening that the contract's config repeats."""

_IMPLIED = ("ramp_frac_min", "ramp_frac_max")

# Defaults of openg2g's function, which apply to names that a library leaves out; ours are its build command's.
_FUNCTION_DEFAULTS = {"ramp_down_frac_min": 0.15, "ramp_down_frac_max": 0.5}


def config_of(recipe: Recipe, n_candidates: int, bands: dict[str, float]) -> dict[str, Any]:
    """The contract's `config` for a library of one recipe.

    Args:
        recipe: What the records were drawn from.
        n_candidates: Rows of the candidates table.
        bands: `CONFIG_BANDS` of the screening.
    """
    experiment, settings = recipe.experiment, recipe.settings
    job = experiment.overlay
    return {
        "system": experiment.name,
        "n_candidates": n_candidates,
        **bands,
        "pv_base_kw": None,
        "tvl_base_kw": None,
        "use_training_overlay": job is not None,
        "randomize_ramps": settings.randomize_ramps,
        "randomize_kwargs": _contract_settings(settings),
        "pv_systems_base": [_base(system) for system in experiment.pv_systems],
        "tvl_base": [_base(load) for load in experiment.loads],
        "v_min": experiment.limits.v_min_pu,
        "v_max": experiment.limits.v_max_pu,
        "training_base": None
        if job is None
        else {
            "n_gpus": job.n_gpus,
            "target_peak_W_per_gpu": job.target_peak_w_per_gpu,
            "t_start": job.t_start_s,
            "t_end": job.t_end_s,
        },
    }


def _contract_settings(settings: RandomizationSettings) -> dict[str, Any]:
    """The flat settings; openg2g's example never writes the narrow profile's `ramp_frac_*`, so nor do we by default."""
    flat, default = settings.to_openg2g(), RandomizationSettings().to_openg2g()
    return {name: value for name, value in flat.items() if name not in _IMPLIED or value != default[name]}


def _base(element: BusPower) -> dict[str, Any]:
    return {"bus": element.bus, "bus_kv": element.bus_kv, "peak_kw": element.peak_kw_per_phase}


def recipe_from_config(config: dict[str, Any], source: str) -> Recipe:
    """The recipe that the contract's `config` means, for a library without our own keys.

    Raises:
        LibraryError: A key is missing or a value is not what it should be; the message names the source.
        UnknownNameError: The library's system is not known here; the known ones are named.
    """
    try:
        base = shipped_experiment(config["system"])
        flat = {"randomize_ramps": config["randomize_ramps"], **_FUNCTION_DEFAULTS, **config["randomize_kwargs"]}
        return Recipe(_experiment(base, config), RandomizationSettings.from_openg2g(flat))
    except KeyError as error:
        raise LibraryError(f"{source}: config has no {error}; libraries of one recipe have it") from None
    except (TypeError, AttributeError, OverflowError) as error:
        raise LibraryError(f"{source}: config is not what it should be ({error})") from None
    except ScenarioLibError as error:
        raise type(error)(f"{source}: {error}") from None


def _experiment(base: Experiment, config: dict[str, Any]) -> Experiment:
    job = config["training_base"]
    overlay = None
    if job is not None:
        overlay = TrainingJob(
            n_gpus=job["n_gpus"],
            target_peak_w_per_gpu=float(job["target_peak_W_per_gpu"]),
            t_start_s=float(job["t_start"]),
            t_end_s=float(job["t_end"]),
        )
    return replace(
        base,
        pv_systems=tuple(
            PVSystem(e["bus"], float(e["bus_kv"]), float(e["peak_kw"])) for e in config["pv_systems_base"]
        ),
        loads=tuple(TimeVaryingLoad(e["bus"], float(e["bus_kv"]), float(e["peak_kw"])) for e in config["tvl_base"]),
        overlay=overlay,
    )
