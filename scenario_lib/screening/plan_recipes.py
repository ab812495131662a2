"""From recipes, which a person wrote, to the strata that a build measures."""

from dataclasses import dataclass
from pathlib import Path

from scenario_lib.errors import DataFileError
from scenario_lib.screening.measure import MeasurePlan
from scenario_lib.screening.planned import PlannedStratum, plan_stratum
from scenario_lib.screening.recipe_strata import NamedRecipe
from scenario_lib.simulation.engines import Engine


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How candidates are measured, whatever the recipe.

    Attributes:
        specs_dir: Spec cache in openg2g's layout; None means the shipped one.
        full_table: Simulate OFO also for candidates that the baseline rules out.
        engine: What rollouts run on.
    """

    specs_dir: Path | None = None
    full_table: bool = False
    engine: Engine = Engine()


def planned(strata: list[NamedRecipe], options: MeasureOptions) -> list[PlannedStratum]:
    """The strata ready to be built.

    Raises:
        DataFileError, UnknownNameError: The experiment cannot be used.
    """
    return [_planned(stratum, options) for stratum in strata]


def _planned(stratum: NamedRecipe, options: MeasureOptions) -> PlannedStratum:
    recipe = stratum.recipe
    if recipe.candidates is None:
        raise DataFileError(f"stratum {stratum.name!r}: has no candidates; expected a number, a quota or seeds")
    experiment = recipe.experiment()
    plan = MeasurePlan(
        experiment,
        recipe.settings(experiment),
        recipe.screening,
        options.specs_dir,
        options.full_table,
        options.engine,
    )
    return plan_stratum(plan, recipe.candidates, stratum.name)
