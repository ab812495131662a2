"""A trained policy, and the same policy as an openg2g controller."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openg2g.controller.base import Controller
from openg2g.datacenter.base import DatacenterBackend
from openg2g.datacenter.command import SetBatchSize
from openg2g.grid.base import GridBackend

from scenario_lib.env.action import decode_action
from scenario_lib.env.observation import build_observation, compute_zone_mask, merge_states
from scenario_lib.errors import InvalidSettingError, PolicyError
from scenario_lib.feeders.arguments import as_path
from scenario_lib.feeders.canonical import first_difference
from scenario_lib.learning.actor import Actor
from scenario_lib.learning.normalization import Normalization
from scenario_lib.learning.policy_files import ACTOR, NEWEST, NORMALIZE, PolicyCard, policy_folder, read_card, read_part


@dataclass(frozen=True, repr=False)
class TrainedPolicy:
    """A policy that `scenario-lib train` wrote. It acts without randomness, needs no PyTorch, and can be pickled.

    Attributes:
        name: What tables call it.
        card: What it observes and sets, how and on what it was trained.
    """

    name: str
    card: PolicyCard
    normalization: Normalization
    actor: Actor

    def __repr__(self) -> str:
        return f"TrainedPolicy({self.name!r}: sites {', '.join(self.card.sites)} on {self.card.feeder})"

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "TrainedPolicy":
        """The policy of a training run, of a checkpoint, or of a policy directory.

        Raises:
            PolicyError: It is not one, damaged, edited, or of another format version.
        """
        folder = policy_folder(as_path("directory", directory))
        card = read_card(folder)
        policy = cls(
            name=_name(folder),
            card=card,
            normalization=read_part(folder, card, NORMALIZE, Normalization),
            actor=read_part(folder, card, ACTOR, Actor),
        )
        slots = card.observation_config.obs_dim
        if policy.actor.n_inputs != slots:
            raise PolicyError(f"{folder}: the actor has {policy.actor.n_inputs} inputs, the observation {slots} slots")
        return policy

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest action for an observation of the environment, shape (obs_dim,).

        Raises:
            InvalidSettingError: The observation has another shape.
        """
        if np.shape(observation) != (self.actor.n_inputs,):
            raise InvalidSettingError(
                f"the observation has shape {np.shape(observation)}; policy {self.name} expects "
                f"({self.actor.n_inputs},)"
            )
        return self.actor.act(self.normalization.observed(observation))

    def controllers(self, datacenters: Mapping[str, Any], grid: Any) -> list[Controller]:
        """The one controller that runs this policy in a rollout.

        Raises:
            PolicyError: The rollout lacks one of the policy's sites.
        """
        return [PolicyController(self, datacenters, grid)]


def _name(folder: Path) -> str:
    """The name of a run for its policy; otherwise that of the directory."""
    resolved = folder.resolve()
    return resolved.parent.name if resolved.name == NEWEST else resolved.name


class PolicyController(Controller[DatacenterBackend, GridBackend]):  # type: ignore[misc]
    """A trained policy as an openg2g controller.

    What the environment does between two observations happens here in one second: the state at the end of second t
    is observed, and the batch sizes decided from it act in second t + 1.

    Args:
        policy: Decides.
        datacenters: By site; those of the policy's sites are observed and set, others are left alone.
        grid: Source of voltages.

    Raises:
        PolicyError: A site of the policy is missing; at `start`, the feeder's bus-phases are not the policy's.
    """

    def __init__(self, policy: TrainedPolicy, datacenters: Mapping[str, Any], grid: Any) -> None:
        missing = [site for site in policy.card.sites if site not in datacenters]
        if missing:
            raise PolicyError(
                f"policy {policy.name} sets batch sizes at {', '.join(missing)}; the rollout has sites "
                f"{', '.join(datacenters)}"
            )
        self._policy = policy
        self._datacenters = {site: datacenters[site] for site in policy.card.sites}
        self._grid = grid
        self._previous: dict[str, int] | None = None

    @property
    def dt_s(self) -> Fraction:
        """One decision a second."""
        return Fraction(1)

    def reset(self) -> None:
        """Forget the previous batch sizes."""
        self._previous = None

    def start(self) -> None:
        """Compare the feeder with the one that the policy was trained on."""
        found = [[str(bus), int(phase)] for bus, phase in self._grid.v_index]
        difference = first_difference(found, [list(pair) for pair in self._policy.card.bus_phases], "bus-phases")
        if difference:
            raise PolicyError(f"policy {self._policy.name} was trained on another feeder: {difference}")
        config = self._policy.card.observation_config
        self._zone_mask = (
            None if config.zone_buses is None else compute_zone_mask(self._grid.v_index, config.zone_buses)
        )
        zones = (config.zone_summary or {}).values()
        self._zone_masks = [compute_zone_mask(self._grid.v_index, buses) for buses in zones] or None

    def step(self, clock: Any, events: Any) -> list[SetBatchSize]:
        """Observe, decide, and command the sites."""
        del clock, events
        config = self._policy.card.observation_config
        observed = list(self._datacenters.values())
        batch_sizes = merge_states(observed).batch_sizes
        running = {label: int(batch_sizes[label]) for label in config.model_labels}
        observation = build_observation(
            self._grid, observed, config, self._previous or running, self._zone_mask, self._zone_masks
        )
        self._previous = running
        wanted = decode_action(
            self._policy.act(observation),
            self._policy.card.settings.environment.action,
            config.model_labels,
            config.feasible_batch_sizes,
            running,
        )
        return [
            SetBatchSize(batch_size_by_model={label: wanted[label] for label in labels}, target=self._datacenters[site])
            for site, labels in self._policy.card.sites.items()
        ]
