"""A rollout of trained policies on the compiled engine, one policy or several at sites of their own.

The policies are the openg2g controllers that they are on the reference engine; only what they observe and set is
simulated in machine code. A whole hour takes about a second, most of it the policies'.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from openg2g.controller.base import Controller

from scenario_lib.env.simulator import Simulator, as_simulator, make_sim_fn
from scenario_lib.errors import PolicyError
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.learning.any_trainer import AnyPolicy
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.engines import Engine
from scenario_lib.simulation.rollout import Rollout


@dataclass(frozen=True)
class PolicyTeam:
    """Policies that act side by side; a rollout takes a team as it takes one policy.

    Each observes what it was trained to observe, and was trained while the others' batch sizes stood still.

    Raises:
        PolicyError: A site that two of them set, or policies for several feeders.
    """

    policies: tuple[TrainedPolicy, ...]

    def __post_init__(self) -> None:
        feeders = sorted({policy.card.feeder for policy in self.policies})
        if len(feeders) != 1:
            raise PolicyError(f"policies of a team are for {', '.join(feeders) or 'nothing'}; expected one feeder")
        owner: dict[str, str] = {}
        for policy in self.policies:
            for site in policy.card.sites:
                if site in owner:
                    raise PolicyError(
                        f"policies {owner[site]} and {policy.name} both set batch sizes at site {site}; expected "
                        f"sites of its own for each policy of a team (train with --site)"
                    )
                owner[site] = policy.name

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "+".join(policy.name for policy in self.policies)

    def controllers(self, datacenters: Mapping[str, Any], grid: Any) -> list[Controller]:
        """One controller per policy.

        Raises:
            PolicyError: The rollout lacks a site of theirs.
        """
        return [controller for policy in self.policies for controller in policy.controllers(datacenters, grid)]


_TICK_S = Fraction(1)


def run_trained(
    scenario: Scenario,
    experiment: Experiment,
    assets: Assets,
    control: AnyPolicy | PolicyTeam,
    engine: Engine,
    n_steps: int = DURATION_S,
) -> Rollout:
    """Simulate a scenario under trained policies for `n_steps` seconds.

    Args:
        engine: A compiled one.

    Raises:
        NotModelledError: The compiled engine does not model the feeder.
        PowerFlowError: The power flow did not converge; the error has the second.
        PolicyError: The feeder is not the one that the policies were trained on.
    """
    stepper = as_simulator(make_sim_fn(experiment, assets, n_steps, engine.label)(scenario), n_steps)
    stepper.start()
    controllers = control.controllers(stepper.sites, stepper)
    for controller in controllers:
        controller.reset()
        controller.start()
    seconds = []
    for _ in range(n_steps):
        stepper.advance(_TICK_S)
        seconds.append(_second(stepper))
        for controller in controllers:
            for command in controller.step(None, None):
                stepper.dispatch(_site_of(command.target, stepper.sites), command.batch_size_by_model)
    return Rollout(control.name, *_names(stepper), *map(np.array, zip(*seconds, strict=True)))


def _names(stepper: Simulator) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Bus-phases, sites, and (site, label) of the models; see `Rollout`."""
    labels = tuple((name, label) for name, site in stepper.sites.items() for label in site.state.batch_size_by_model)
    return tuple(stepper.v_index), tuple(stepper.sites), labels


def _second(stepper: Simulator) -> tuple[Any, ...]:
    """Voltages, power, batch sizes, replicas and latency of the last second, in `Rollout`'s order."""
    states = [site.state for site in stepper.sites.values()]
    return (
        stepper.voltages_vector(),
        [(state.power_w.a, state.power_w.b, state.power_w.c) for state in states],
        [size for state in states for size in state.batch_size_by_model.values()],
        [count for state in states for count in state.active_replicas_by_model.values()],
        [itl_s for state in states for itl_s in state.observed_itl_s_by_model.values()],
    )


def _site_of(target: Any, sites: Mapping[str, Any]) -> str:
    return next(name for name, site in sites.items() if site is target)
