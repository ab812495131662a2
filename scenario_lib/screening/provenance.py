"""Where a build's figures come from: its recipe with digests of all data that rollouts read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scenario_lib.feeders.circuit_files import circuit_digest
from scenario_lib.library.recipe import DataDigests, Recipe, recipe_from_dict
from scenario_lib.library.versions import versions
from scenario_lib.screening.criteria import KINDS
from scenario_lib.screening.measure import MeasurePlan
from scenario_lib.screening.planned import PlannedStratum
from scenario_lib.simulation.assets import assets_digest
from scenario_lib.simulation.training_trace import training_trace_recipe


def recipe_of(plan: MeasurePlan, stratum: str | None = None) -> Recipe:
    """The recipe of a build, or of one stratum of it.

    It is as a library gives it back: whole numbers that stand for floats are floats there.
    """
    trace = training_trace_recipe()
    data = DataDigests(
        circuit=circuit_digest(Path(plan.experiment.feeder.circuit)),
        models=assets_digest(plan.experiment.models, plan.specs_dir),
        training_trace=trace.digest,
        training_trace_params=trace.params,
    )
    return recipe_from_dict(Recipe(plan.experiment, plan.settings, data, stratum).to_dict(), plan.experiment.name)


def plan_record(plan: MeasurePlan, recipe: Recipe) -> dict[str, Any]:
    """All that decides a candidate's figures; two builds with equal records measure equal candidates."""
    return {
        "recipe": recipe.to_dict(),
        "screening": plan.criteria.to_dict(),
        **({} if plan.kinds == KINDS else {"kinds": list(plan.kinds)}),
        "full_table": plan.full_table,
        "engine": plan.engine.label,
        "versions": versions(),
    }


def build_record(strata: Sequence[PlannedStratum], recipes: Sequence[Recipe]) -> dict[str, Any]:
    """The same for a whole build: that of its one plan, or those of all strata with where their seeds begin."""
    records = [plan_record(stratum.plan, recipe) for stratum, recipe in zip(strata, recipes, strict=True)]
    if strata[0].name is None:
        return records[0]
    # Without its first seed a journal could be resumed under strata that deal the seeds otherwise.
    parts = {
        str(stratum.name): {**record, "first_seed": stratum.request.seed_order()[0]}
        for stratum, record in zip(strata, records, strict=True)
    }
    return {"strata": list(parts), "stratum": parts, "versions": versions()}
