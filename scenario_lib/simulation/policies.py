"""Who sets batch sizes during a rollout: nobody, openg2g's OFO controller, or its rule-based one."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

from openg2g.controller.ofo import OFOBatchSizeController, OFOConfig
from openg2g.controller.rule_based import RuleBasedBatchSizeController, RuleBasedConfig

from scenario_lib.errors import UnknownNameError
from scenario_lib.feeders.arguments import refused
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.sites import Site
from scenario_lib.simulation.assets import Assets, openg2g_spec
from scenario_lib.simulation.datacenters import ScenarioDatacenter
from scenario_lib.simulation.grid import ScenarioGrid

Controller = Any
MakeController = Callable[[Site, ScenarioDatacenter, ScenarioGrid, Experiment, Assets], Controller]


class ControlPolicy(Protocol):
    """A policy that is not one of the named ones, such as a trained one."""

    @property
    def name(self) -> str:
        """What a rollout calls it."""
        ...

    def controllers(self, datacenters: dict[str, ScenarioDatacenter], grid: ScenarioGrid) -> list[Controller]:
        """openg2g controllers for the sites of a rollout, which is not started yet."""
        ...


Policy = str | ControlPolicy
"""Who sets batch sizes: one of `POLICIES` by name, or an object that makes its own controllers."""


def _ofo(
    site: Site, datacenter: ScenarioDatacenter, grid: ScenarioGrid, experiment: Experiment, assets: Assets
) -> Controller:
    return OFOBatchSizeController(
        tuple(openg2g_spec(spec) for spec in experiment.site_models(site)),
        datacenter=datacenter,
        grid=grid,
        models=assets.logistic,
        config=OFOConfig(**asdict(experiment.ofo)),
        initial_batch_sizes={model.label: model.initial_batch_size for model in site.models},
    )


def rule_based_config(experiment: Experiment) -> RuleBasedConfig:
    """openg2g's rule with its own tuning, on the experiment's limits."""
    return RuleBasedConfig(v_min=experiment.limits.v_min_pu, v_max=experiment.limits.v_max_pu)


def rule_zone(experiment: Experiment, site: str, zonal: bool) -> tuple[str, ...] | None:
    """The buses that a site's rule looks at: all (None) as by openg2g's default, or those of its zone if it has one."""
    return experiment.feeder.zones.get(site) if zonal else None


def _rule_based(
    site: Site,
    datacenter: ScenarioDatacenter,
    grid: ScenarioGrid,
    experiment: Experiment,
    assets: Assets,
    *,
    zonal: bool,
) -> Controller:
    del assets  # it decides from voltages and latency alone
    return RuleBasedBatchSizeController(
        tuple(openg2g_spec(spec) for spec in experiment.site_models(site)),
        datacenter=datacenter,
        grid=grid,
        config=rule_based_config(experiment),
        exclude_buses=experiment.feeder.exclude_buses,
        zone_buses=rule_zone(experiment, site.name, zonal),
        initial_batch_sizes={model.label: model.initial_batch_size for model in site.models},
    )


_MAKERS: dict[str, MakeController | None] = {
    "none": None,
    "ofo": _ofo,
    "rule-based": partial(_rule_based, zonal=False),
    "rule-based-zonal": partial(_rule_based, zonal=True),
}

POLICIES = tuple(_MAKERS)
"""Names of the policies: "none" (the baseline), "ofo", "rule-based" on the worst voltage of the whole feeder (openg2g's
default), "rule-based-zonal" on that of each site's zone."""


def require_policy(policy: object) -> None:
    """Refuse what is no policy.

    Raises:
        UnknownNameError: No policy of that name.
        InvalidSettingError: Neither a name nor an object that makes controllers.
    """
    if isinstance(policy, str) and policy not in _MAKERS:
        raise UnknownNameError(f"policy {policy!r} is not known; expected one of {', '.join(POLICIES)}")
    if not isinstance(policy, str) and not hasattr(policy, "controllers"):
        raise refused("policy", policy, f"one of {', '.join(POLICIES)}, or a policy such as TrainedPolicy.load gives")


def build_controllers(
    policy: Policy,
    sites: tuple[Site, ...],
    datacenters: dict[str, ScenarioDatacenter],
    grid: ScenarioGrid,
    experiment: Experiment,
    assets: Assets,
) -> list[Controller]:
    """One controller per site, in site order; none for the baseline; a policy that is an object makes its own.

    Raises:
        UnknownNameError: No policy of that name.
    """
    require_policy(policy)
    if not isinstance(policy, str):
        return policy.controllers(datacenters, grid)
    make = _MAKERS[policy]
    if make is None:
        return []
    return [make(site, datacenters[site.name], grid, experiment, assets) for site in sites]
