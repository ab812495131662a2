"""A rollout of trained policies on the compiled engine.

The policies are the openg2g controllers that they are on the reference engine; only what they observe and set is
simulated in machine code. A whole hour takes about a second, most of it the policies'.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from scenario_lib.env.simulation import Stepper, as_stepper, make_sim_fn
from scenario_lib.feeders.experiment import DURATION_S, Experiment
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.learning.team import PolicyTeam
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import Assets
from scenario_lib.simulation.engines import Engine
from scenario_lib.simulation.rollout import Rollout

_TICK_S = Fraction(1)


def run_trained(
    scenario: Scenario,
    experiment: Experiment,
    assets: Assets,
    control: TrainedPolicy | PolicyTeam,
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
    stepper = as_stepper(make_sim_fn(experiment, assets, n_steps, engine.label)(scenario), n_steps)
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


def _names(stepper: Stepper) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Bus-phases, sites, and (site, label) of the models; see `Rollout`."""
    labels = tuple((name, label) for name, site in stepper.sites.items() for label in site.state.batch_size_by_model)
    return tuple(stepper.v_index), tuple(stepper.sites), labels


def _second(stepper: Stepper) -> tuple[Any, ...]:
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
