"""What the rollouts of one record read, as one digest: the record's part of the replay certificate.

It covers drawn numbers and data files, never what is computed from them. Tables that are made with sines, logarithms
or matrix products differ in their last bits between processors; their sources do not. So the digest is equal on every
machine, and two records with equal ones have equal traces wherever versions and processor features are equal,
whatever settings they were drawn with.
"""

from typing import Any

from scenario_lib.feeders.canonical import digest_of
from scenario_lib.library.recipe import Recipe

# The scenario has its own sites, PV systems, loads and training job; the circuit and the rest of the feeder's facts
# stand below.
_READ_BY_ROLLOUTS = ("models", "limits", "ofo", "datacenter")
_READ_OF_FEEDER = ("source_pu", "initial_taps_pu", "exclude_buses")


def inputs_digest(recipe: Recipe, engine: str, scenario_digest: str, has_training: bool) -> str:
    """SHA-256 of what the rollouts of one scenario read.

    Args:
        recipe: What the scenario was drawn from, with the digests of its data.
        engine: Label of the engine that runs it.
        scenario_digest: Digest of the drawn numbers.
        has_training: Whether the scenario has a training job; without one, no rollout reads the training trace.
    """
    return RolloutInputs(recipe).digest(engine, scenario_digest, has_training)


class RolloutInputs:
    """The same digests for many scenarios of one recipe: what they share is digested once."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._shared: dict[tuple[str, bool], str] = {}

    def digest(self, engine: str, scenario_digest: str, has_training: bool) -> str:
        """See `inputs_digest`."""
        key = (engine, has_training)
        if key not in self._shared:
            self._shared[key] = digest_of(_shared_inputs(self._recipe, engine, has_training))
        return digest_of({"scenario": scenario_digest, "shared": self._shared[key]})


def _shared_inputs(recipe: Recipe, engine: str, has_training: bool) -> dict[str, Any]:
    experiment = recipe.to_dict()["experiment"]
    feeder = experiment["feeder"]
    return {
        "engine": engine,
        "data": _data(recipe, has_training),
        "feeder": {name: feeder[name] for name in _READ_OF_FEEDER},
        **{name: experiment[name] for name in _READ_BY_ROLLOUTS},
    }


def _data(recipe: Recipe, has_training: bool) -> dict[str, Any] | None:
    if recipe.data is None:
        return None
    trace = recipe.data.training_trace if has_training else None
    return {"circuit": recipe.data.circuit, "models": recipe.data.models, "training_trace": trace}
