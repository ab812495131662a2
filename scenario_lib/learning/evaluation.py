"""Replay a held-out library under no control, a rule, OFO and trained policies, and compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from scenario_lib.errors import InvalidSettingError, PolicyError, UnknownNameError
from scenario_lib.execution.tasks import Outcome, RunOptions, run_tasks
from scenario_lib.feeders.arguments import (
    as_flag,
    as_path,
    as_system,
    as_text,
    as_whole_number,
    built_as,
    convert_fields,
    instance_of,
    optional,
    tuple_of,
)
from scenario_lib.feeders.checks import few, require_count, shown
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.learning.comparison import Comparison, ScenarioFigures
from scenario_lib.learning.compiled_rollout import run_trained
from scenario_lib.learning.figures import Figures, figures_of
from scenario_lib.learning.held_out import held_out_warnings, other_data
from scenario_lib.learning.policy import TrainedPolicy
from scenario_lib.learning.team import PolicyTeam
from scenario_lib.library.loader import AnyLibrary, ScenarioLibrary, opened
from scenario_lib.library.recipe import located_experiment
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.view import spread_records
from scenario_lib.scenario.model import Scenario
from scenario_lib.screening.tuning import as_screened, tuning_text
from scenario_lib.simulation.assets import Assets, load_assets
from scenario_lib.simulation.engines import REFERENCE, Engine, as_engine, prepare, simulator
from scenario_lib.simulation.policies import POLICIES
from scenario_lib.simulation.rollout import Rollout, run_rollout


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """How a library is replayed.

    Attributes:
        policies: Directories of trained policies.
        baselines: Named policies to compare with, among those of `simulation.policies`.
        records: How many records, spread over the library; None for all.
        specs_dir: Spec cache to replay on; None means the shipped one.
        system: Experiment's TOML file, for a library on a feeder of the user's own.
        allow_shared_seeds: Go on where a policy was trained on records of this library, with a warning.
        engine: What rollouts run on, but for named policies that only the reference engine has.
        teams: Directories of policies that act in one rollout, each at sites of its own.
    """

    policies: tuple[Path, ...] = ()
    baselines: tuple[str, ...] = ("none", "ofo", "rule-based")
    records: int | None = None
    specs_dir: Path | None = None
    system: str | None = None
    allow_shared_seeds: bool = False
    engine: Engine = Engine()
    run: RunOptions = RunOptions()
    teams: tuple[tuple[Path, ...], ...] = ()

    def __post_init__(self) -> None:
        convert_fields(self, policies=tuple_of(as_path), baselines=tuple_of(as_text), teams=tuple_of(tuple_of(as_path)))
        convert_fields(self, records=optional(as_whole_number), specs_dir=optional(as_path), system=optional(as_system))
        convert_fields(self, allow_shared_seeds=as_flag, engine=as_engine, run=built_as(RunOptions))
        for name in self.baselines:
            if name not in POLICIES:
                raise UnknownNameError(f"baseline {name!r} is not known; expected among {', '.join(POLICIES)}")
        if self.records is not None:
            require_count("records", self.records, 1)
        if not (self.baselines or self.policies or self.teams):
            raise InvalidSettingError("nothing to evaluate; give baselines, policies, or both")


Control = str | TrainedPolicy | PolicyTeam

Task = tuple[int, int]
"""Index of a record, and position of a control."""


_DEFAULTS = EvaluationOptions()


def evaluate(
    path: AnyLibrary, options: EvaluationOptions = _DEFAULTS, show: Callable[[int, int], None] | None = None
) -> Comparison:
    """Replay whole hours in parallel workers; equal results for any number of them.

    Args:
        path: Of the library, or the opened one.
        show: Called with (rollouts done, in all).

    Raises:
        SharedSeedsError: A policy was trained on records of this library.
        PolicyError: A policy cannot be read, or is one for another feeder.
        InvalidSettingError: Two policies have one name, or options of another type.
    """
    instance_of(EvaluationOptions)("options", options)
    library = opened(path)
    loaded = {folder: TrainedPolicy.load(folder) for folder in chain(options.policies, *options.teams)}
    teams = [PolicyTeam(tuple(loaded[folder] for folder in team)) for team in options.teams]
    policies = list(loaded.values())
    _require_feeder(library, policies)
    wrong_data = other_data(library, options.specs_dir, options.system)
    warnings = [*held_out_warnings(library, policies, options.allow_shared_seeds), *filter(None, [wrong_data])]
    controls: list[Control] = [*options.baselines, *(loaded[folder] for folder in options.policies), *teams]
    names = control_names(controls)
    options, notices = _with_engine(library, options)
    warnings += notices
    records = spread_records(library, options.records)
    tasks = [(record.index, position) for record in records for position in range(len(controls))]
    replay = partial(_replay, library, controls, options)
    figures = {}
    for outcome in run_tasks(replay, tasks, options.run):
        figures[outcome.task] = _scenario_figures(outcome, library, names)
        if show is not None:
            show(len(figures), len(tasks))
    rows = tuple(figures[task] for task in sorted(figures))
    return Comparison(names, rows, tuple(warnings), _ofo_notes(library, options))


def _with_engine(library: ScenarioLibrary, options: EvaluationOptions) -> tuple[EvaluationOptions, list[str]]:
    """Make an engine ready before workers start; the options with one that models the feeder, and notices."""
    if options.engine.name == REFERENCE:
        return options, []
    for recipe in library.recipes.values():
        experiment = located_experiment(recipe, options.system)
        what = prepare(experiment, load_assets(experiment, options.specs_dir), options.engine)
        if what is not None:
            notice = f"the compiled engine does not model {what}; the reference engine was used"
            return replace(options, engine=Engine(REFERENCE)), [notice]
    return options, []


def _ofo_notes(library: ScenarioLibrary, options: EvaluationOptions) -> tuple[str, ...]:
    """How OFO is tuned here, beside how it was when the library was screened."""
    if "ofo" not in options.baselines:
        return ()
    experiments = [located_experiment(recipe, options.system) for recipe in library.recipes.values()]
    texts = (
        f"ofo: as the experiment has it, {tuning_text(experiment.ofo)}; screening had "
        f"{tuning_text(as_screened(experiment).ofo)}"
        for experiment in experiments
    )
    return tuple(dict.fromkeys(texts))


def control_names(controls: Sequence[Control]) -> tuple[str, ...]:
    """What tables call the controls, each name once."""
    names = tuple(control if isinstance(control, str) else control.name for control in controls)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidSettingError(
            f"two controls are called {twice!r}; a policy is called like its directory: rename one"
        )
    return names


def _require_feeder(library: ScenarioLibrary, policies: Sequence[TrainedPolicy]) -> None:
    feeders = sorted({recipe.experiment.name for recipe in library.recipes.values()})
    for policy in policies:
        if feeders != [policy.card.feeder]:
            raise PolicyError(
                f"policy {policy.name} was trained on feeder {policy.card.feeder}; {library.path} is a library on "
                f"{few(feeders)}"
            )
        for recipe in library.recipes.values():
            _require_batch_sizes(policy, recipe.experiment)


def _require_batch_sizes(policy: TrainedPolicy, experiment: Experiment) -> None:
    """A policy moves along the lists of batch sizes that it was trained with; along others it would do something else.

    Raises:
        PolicyError: The library's experiment has another list for one of its models, or not that model.
    """
    here = {spec.label: spec.feasible_batch_sizes for spec in experiment.models}
    for label, sizes in policy.card.observation_config.feasible_batch_sizes.items():
        if here.get(label) != tuple(sizes):
            raise PolicyError(
                f"policy {policy.name} sets {label} to batch sizes {shown(tuple(sizes))}; the library has "
                f"{here.get(label, 'no such model')}"
            )


def _replay(library: ScenarioLibrary, controls: Sequence[Control], options: EvaluationOptions, task: Task) -> Figures:
    """Runs inside a worker."""
    record = library[task[0]]
    experiment = located_experiment(library.recipe_of(record), options.system)
    assets = load_assets(experiment, options.specs_dir)
    rollout = _rollout(library.materialize(record), experiment, assets, controls[task[1]], options.engine)
    return figures_of(rollout, experiment, assets)


def _rollout(scenario: Scenario, experiment: Experiment, assets: Assets, control: Control, engine: Engine) -> Rollout:
    if engine.name == REFERENCE:
        return run_rollout(scenario, experiment, assets, control)
    if isinstance(control, str):
        return simulator(scenario, experiment, assets, engine).run(control).rollout
    return run_trained(scenario, experiment, assets, control, engine)


def _scenario_figures(
    outcome: Outcome[Task, Figures], library: ScenarioLibrary, names: tuple[str, ...]
) -> ScenarioFigures:
    record: ScenarioRecord = library[outcome.task[0]]
    failure = None if outcome.failure is None else outcome.failure.message
    return ScenarioFigures(record.index, record.seed, record.kind, names[outcome.task[1]], outcome.result, failure)
