"""Several trained policies in one rollout, each at sites of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openg2g.controller.base import Controller

from scenario_lib.errors import PolicyError
from scenario_lib.learning.policy import TrainedPolicy


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
        """What tables call it."""
        return "+".join(policy.name for policy in self.policies)

    def controllers(self, datacenters: Mapping[str, Any], grid: Any) -> list[Controller]:
        """One controller per policy.

        Raises:
            PolicyError: The rollout lacks a site of theirs.
        """
        return [controller for policy in self.policies for controller in policy.controllers(datacenters, grid)]
