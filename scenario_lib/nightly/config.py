"""Settings of a nightly run, read from a TOML file."""

from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import ClassVar

from scenario_lib._parsing import NIGHTLY, parse_settings_file, read_toml
from scenario_lib._values import STRICT, Bounds, count, require_bounds
from scenario_lib.errors import DataFileError
from scenario_lib.screening.recipe_file import RecipeFile, parse_strata, read_recipe_tables

_SAMPLE_BOUNDS = {"own": count(), "reference": count()}
_LIMIT_BOUNDS = {
    "min_accepted": count(1),
    "max_failed": count(),
    "max_lost": count(),
    "max_flipped": count(),
    "max_explained": count(),
    "max_acceptance_change": Bounds(0),
    "max_distance": Bounds(0),
}
_RETENTION_BOUNDS = {"good": count(1), "failed": count()}
_CONFIG_BOUNDS = {"seed_advance": count()}


@dataclass(frozen=True, slots=True)
class Samples:
    """How many records are replayed before a night is published.

    Attributes:
        own: On the engine that screened them, bit for bit.
        reference: On openg2g with OpenDSS, within tolerance.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    own: int = 5
    reference: int = 2

    def __post_init__(self) -> None:
        require_bounds(self, _SAMPLE_BOUNDS)


@dataclass(frozen=True, slots=True)
class NightlyLimits:
    """Limits that a night must keep to be published; None sets no limit.

    Attributes:
        min_accepted: Fewest records.
        max_failed: Most candidates that raised, ran out of time or killed their worker.
        max_lost: Most records of the last good night that are gone, or have another scenario under their seed.
        max_flipped: Most candidates of the last good night that are judged otherwise about being accepted.
        max_explained: Most of the records replayed on the reference engine whose figures differ by a decision on a
            rounding boundary; one that changes the verdict always keeps a night from being published.
        max_acceptance_change: Largest change of the fraction accepted.
        max_distance: Largest Kolmogorov-Smirnov distance of the records' recovery or baseline integral.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    min_accepted: int = 1
    max_failed: int | None = 0
    max_lost: int | None = None
    max_flipped: int | None = None
    max_explained: int | None = 1
    max_acceptance_change: float | None = None
    max_distance: float | None = None

    def __post_init__(self) -> None:
        require_bounds(self, _LIMIT_BOUNDS)


@dataclass(frozen=True, slots=True)
class Retention:
    """How many nights stay on disk: the newest good ones (the current one always), and the newest failed ones."""

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    good: int = 7
    failed: int = 3

    def __post_init__(self) -> None:
        require_bounds(self, _RETENTION_BOUNDS)


@dataclass(frozen=True, slots=True)
class NightlyConfig:
    """The tables of a nightly run's file.

    Attributes:
        root: Directory that holds the nights; relative to the file.
        recipe: Recipe file of the build; relative to the file.
        seed_advance: Every day the candidates start this many further on; 0 tries the same seeds each night, so that
            a difference is one of code, versions or data.
        specs_dir: Spec cache; relative to the file; None means the shipped one.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    root: str
    recipe: str
    seed_advance: int = 0
    specs_dir: str | None = None
    replay: Samples = Samples()
    limits: NightlyLimits = NightlyLimits()
    keep: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        require_bounds(self, _CONFIG_BOUNDS)


@dataclass(frozen=True, slots=True)
class NightPlan:
    """A nightly run that is ready to be carried out: its file, and the strata of the recipe that the file names."""

    config: NightlyConfig
    recipes: tuple[RecipeFile, ...]
    root: Path
    specs_dir: Path | None

    def strata(self, night: date) -> list[RecipeFile]:
        """What a night builds: the recipe's strata, with the candidates of that day."""
        return [self._on(recipe, night) for recipe in self.recipes]

    def _on(self, recipe: RecipeFile, night: date) -> RecipeFile:
        if recipe.candidates is None:
            return recipe
        start = recipe.candidates.seed_start + night.toordinal() * self.config.seed_advance
        return replace(recipe, candidates=replace(recipe.candidates, seed_start=start))


def read_nightly(path: Path) -> NightPlan:
    """The plan that a file describes.

    Raises:
        MissingDataError: The file, or the recipe that it names, is not there.
        DataFileError: A table or value is not what it should be.
    """
    config = parse_settings_file(NightlyConfig, read_toml(path, NIGHTLY), str(path))
    folder = path.resolve().parent
    file = folder / config.recipe
    recipes = parse_strata(read_recipe_tables(file), str(file))
    for recipe in recipes:
        if recipe.candidates is None:
            raise DataFileError(f"{file}: has no [candidates]; say there how many a night tries")
        if recipe.candidates.seeds is not None and config.seed_advance:
            raise DataFileError(f"{path}: seed_advance is {config.seed_advance}; expected 0, as {file} lists its seeds")
    specs_dir = None if config.specs_dir is None else folder / config.specs_dir
    return NightPlan(config, tuple(recipes), folder / config.root, specs_dir)
